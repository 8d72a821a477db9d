// SPDX-License-Identifier: Apache-2.0
using System;
using System.Collections.Generic;
using System.Globalization;
using System.IO;
using System.Linq;
using Moert;

/// <summary>The numbers that bindings/tests/reference.c wrote.</summary>
sealed class Reference {
    public readonly int T, H, I, E, K, S;
    private readonly Dictionary<string, uint[]> values = new Dictionary<string, uint[]>();

    public Reference() {
        var path = Environment.GetEnvironmentVariable("MOERT_REFERENCE");
        foreach (var line in File.ReadAllLines(path)) {
            var words = line.Split(' ');
            values[words[0]] = words.Skip(2).Select(w => uint.Parse(w,
                NumberStyles.HexNumber)).ToArray();
            Check.That(values[words[0]].Length == int.Parse(words[1]), "length of " + words[0]);
        }
        var shape = Ints("shape");
        T = shape[0];
        H = shape[1];
        I = shape[2];
        E = shape[3];
        K = shape[4];
        S = shape[5];
    }

    public uint[] Bits(string name) { return values[name]; }

    public int[] Ints(string name) { return values[name].Select(v => (int)v).ToArray(); }

    public float[] Floats(string name) {
        return values[name].Select(v => BitConverter.ToSingle(BitConverter.GetBytes(v),
            0)).ToArray();
    }

    public void Equal(string name, float[] got) {
        var bits = got.Select(v => BitConverter.ToUInt32(BitConverter.GetBytes(v), 0));
        Check.That(bits.SequenceEqual(values[name]), name + " differs from C's");
    }

    public void Equal(string name, int[] got) {
        Check.That(got.SequenceEqual(Ints(name)), name + " differs from C's");
    }

    public Routing Routing {
        get { return new Routing { NumExperts = E, TopK = K, Renormalize = Renormalize.Sum }; }
    }

    public LayerConfig Config(Func<string, Matrix> weight) {
        return new LayerConfig {
            Hidden = H,
            Intermediate = I,
            SharedIntermediate = S,
            Routing = Routing,
            Weights = new[] {
                new Weight(Role.Router, weight("router"), E, H),
                new Weight(Role.ExpertGate, weight("expert_gate"), I, H),
                new Weight(Role.ExpertUp, weight("expert_up"), I, H),
                new Weight(Role.ExpertDown, weight("expert_down"), H, I),
                new Weight(Role.SharedGate, weight("shared_gate"), S, H),
                new Weight(Role.SharedUp, weight("shared_up"), S, H),
                new Weight(Role.SharedDown, weight("shared_down"), H, S),
                new Weight(Role.SharedExpertGate, weight("shared_expert_gate"), 1, H)
            }
        };
    }

    public LayerConfig Config() { return Config(name => Floats(name)); }
}

/// <summary>What a test claims.</summary>
static class Check {
    public static void That(bool condition, string what) {
        if (!condition) throw new Exception(what);
    }

    public static TException Throws<TException>(Action action) where TException : Exception {
        try {
            action();
        } catch (TException e) {
            return e;
        }
        throw new Exception("no " + typeof(TException).Name);
    }

    public static void Fails(Status status, string part, Action action) {
        var e = Throws<MoertException>(action);
        That(e.Status == status, "status " + e.Status + ": " + e.Message);
        That(e.Message.Contains(part), "\"" + part + "\" is not in \"" + e.Message + "\"");
    }
}
