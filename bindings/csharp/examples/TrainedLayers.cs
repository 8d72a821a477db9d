// SPDX-License-Identifier: Apache-2.0
// Packs a checkpoint, opens its MoE layers and runs each on the embeddings of a text whose tokens
// are bytes; prints which experts the tokens went to.
//
//     mono TrainedLayers.exe examples/tiny-shakespeare-qwen2moe
using System;
using System.IO;
using System.Linq;
using System.Text;
using Moert;

static class TrainedLayers {
    const string Prompt = "To be, or not to be, that is the question";

    static int Main(string[] arguments) {
        if (arguments.Length != 1) {
            Console.Error.WriteLine("usage: TrainedLayers FOLDER");
            return 1;
        }
        using (var runtime = new Runtime())
        using (var manifest = Open(runtime, arguments[0]))
        using (var device = new Device(runtime, "best"))
        using (var stream = new DeviceStream(device)) {
            var x = Embed(manifest);
            var layers = manifest.GetInfo().NumLayers;
            for (uint index = 0; index < layers; index++) {
                var options = new LayerOptions { Dtype = Dtype.Float32 };
                using (var layer = new Layer(device, manifest, index, options)) {
                    var y = new float[x.Length];
                    var counts = new int[layer.Info.NumExperts];
                    layer.Forward(stream, new ForwardArgs { X = x, Y = y, ExpertCounts = counts });
                    var rms = Math.Sqrt(y.Sum(v => (double)v * v) / y.Length);
                    Console.WriteLine("layer {0}: rms of y {1:F4}, tokens by expert [{2}]", index,
                        rms,
                                      string.Join(" ", counts));
                }
            }
        }
        return 0;
    }

    /// <summary>Packs the checkpoint into a manifest that does not stay.</summary>
    static Manifest Open(Runtime runtime, string folder) {
        var place = Path.Combine(Path.GetTempPath(), Path.GetRandomFileName());
        var packed = Path.Combine(place, "model.moem");
        Directory.CreateDirectory(place);
        try {
            Manifest.Pack(runtime, folder, new PackOptions { Output = packed });
            return new Manifest(runtime, packed, new ManifestOptions { BaseDir = folder });
        } finally {
            Directory.Delete(place, true);
        }
    }

    /// <summary>One row for each byte of the prompt.</summary>
    static float[] Embed(Manifest manifest) {
        var index = manifest.FindTensor("model.embed_tokens.weight");
        var hidden = (int)manifest.Tensor(index).Shape[1];
        var table = manifest.TensorData(index);
        return Encoding.UTF8.GetBytes(Prompt).SelectMany(token => Enumerable.Range(token * hidden,
            hidden))
            .Select(i => new BFloat16(BitConverter.ToUInt16(table, 2 * i)).ToSingle()).ToArray();
    }
}
