// SPDX-License-Identifier: Apache-2.0
//! Four experts, two for each of three tokens, on the best device there is.
use moert::{Forward, LayerConfig, Role, Routing, Runtime, Weight};

fn main() -> moert::Result<()> {
    let w: Vec<f32> = (0..4 * 16 * 8).map(|i| (i * 37 % 101) as f32 / 101.0 - 0.5).collect();
    let device = Runtime::new()?.device("best")?;
    let layer = LayerConfig::new(8, 16, Routing::new(4, 2))
        .weight(Weight::new(Role::Router, &w[..4 * 8], 4, 8))
        .weight(Weight::new(Role::ExpertGate, &w, 16, 8))
        .weight(Weight::new(Role::ExpertUp, &w, 16, 8))
        .weight(Weight::new(Role::ExpertDown, &w, 8, 16))
        .build(&device)?;
    let (x, mut y, mut ids) = (&w[..3 * 8], [0f32; 3 * 8], [0i32; 3 * 2]);
    layer.forward(&mut device.stream()?, Forward::new(x, &mut y).ids(&mut ids))?;
    println!("experts {:?}, y[0] {:.4}", ids, y[0]);
    Ok(())
}
