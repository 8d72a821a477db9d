// SPDX-License-Identifier: Apache-2.0
//! Packs a checkpoint, opens its MoE layers and runs each on the embeddings of a text whose tokens are
//! bytes; prints which experts the tokens went to.
//!
//!     cargo run --example trained_layers -- examples/tiny-shakespeare-qwen2moe
use moert::{
    Bf16, Dtype, Error, Forward, Layer, LayerOptions, Manifest, ManifestConfig, Pack, Runtime,
};

const TEXT: &[u8] = b"To be, or not to be, that is the question";

/// One row for each byte of the text.
fn embed(manifest: &Manifest, hidden: usize) -> Result<Vec<f32>, Error> {
    let index = manifest.find_tensor("model.embed_tokens.weight")?;
    let table: Vec<Bf16> = manifest
        .tensor_data(index)?
        .chunks(2)
        .map(|b| Bf16(u16::from_le_bytes([b[0], b[1]])))
        .collect();
    let row = |&token: &u8| &table[usize::from(token) * hidden..][..hidden];
    Ok(TEXT.iter().flat_map(row).map(|v| v.to_f32()).collect())
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let folder = std::env::args().nth(1).expect("usage: trained_layers FOLDER");
    let place = std::env::temp_dir().join(format!("trained-{}", std::process::id()));
    std::fs::create_dir(&place)?;
    let packed = place.join("model.moem");
    let runtime = Runtime::new()?;
    Pack::new(&folder).output(&packed).run(&runtime)?;
    let opened = ManifestConfig::default().base_dir(&folder).open(&runtime, &packed);
    let _ = std::fs::remove_dir_all(&place);
    let manifest = opened?;

    let device = runtime.device("best")?;
    let mut stream = device.stream()?;
    let hidden = manifest.layer(0)?.hidden as usize;
    let x = embed(&manifest, hidden)?;
    for index in 0..manifest.info()?.num_layers {
        let options = LayerOptions::default().dtype(Dtype::Float32);
        let layer = Layer::open(&device, &manifest, index, &options)?;
        let mut y = vec![0.0f32; x.len()];
        let mut counts = vec![0i32; layer.info().num_experts as usize];
        layer.forward(&mut stream, Forward::new(&x, &mut y).expert_counts(&mut counts))?;
        let rms = (y.iter().map(|v| v * v).sum::<f32>() / y.len() as f32).sqrt();
        println!("layer {}: rms of y {:.4}, tokens by expert {:?}", index, rms, counts);
    }
    Ok(())
}
