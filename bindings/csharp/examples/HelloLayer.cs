// SPDX-License-Identifier: Apache-2.0
// Four experts, two for each of three tokens, on the best device there is.
using System;
using System.Linq;
using Moert;

static class HelloLayer {
    static void Main() {
        var w = Enumerable.Range(0, 4 * 16 * 8).Select(i => i * 37 % 101 / 101f - 0.5f).ToArray();
        float[] x = w.Take(3 * 8).ToArray(), y = new float[3 * 8];
        var ids = new int[3 * 2];
        using (var runtime = new Runtime())
        using (var device = new Device(runtime, "best"))
        using (var stream = new DeviceStream(device))
        using (var layer = new Layer(device, new LayerConfig {
            Hidden = 8, Intermediate = 16, Routing = new Routing { NumExperts = 4, TopK = 2 },
            Weights = new[] {
                new Weight(Role.Router, w.Take(4 * 8).ToArray(), 4, 8),
                new Weight(Role.ExpertGate, w, 16, 8), new Weight(Role.ExpertUp, w, 16, 8),
                new Weight(Role.ExpertDown, w, 8, 16)
            }
        })) {
            layer.Forward(stream, new ForwardArgs { X = x, Y = y, Ids = ids });
        }
        Console.WriteLine("experts [{0}], y[0] {1:F4}", string.Join(" ", ids), y[0]);
    }
}
