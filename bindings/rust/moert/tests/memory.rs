// SPDX-License-Identifier: Apache-2.0
//! Creating and dropping everything over and over leaves memory flat. A process of its own.
mod common;
use moert::*;

fn cycle(runtime: &Runtime, count: usize) {
    for _ in 0..count {
        let device = DeviceConfig::default().cpu_threads(1).build(runtime, "cpu").unwrap();
        let gate = GateConfig::new(GateKind::MultiplyRows, 3).build(&device).unwrap();
        let router = RouterConfig::new(0, Routing::new(4, 2)).build(&device).unwrap();
        let mut stream = device.stream().unwrap();
        let mut out = [0.0f32; 3];
        let args = GateForward::new(&[1.0f32; 3], &[0.0f32], &mut out);
        gate.forward(&mut stream, args).unwrap();
        assert_eq!(out, [0.5; 3]);
        assert!(runtime.device("nothing").is_err());
        drop((device.event().unwrap(), device.buffer(4096).unwrap(), router));
    }
}

#[test]
fn a_hundred_thousand_rounds_leave_memory_flat() {
    let rounds: usize = std::env::var("MOERT_ROUNDS").map_or(100_000, |n| n.parse().unwrap());
    let runtime = Runtime::config().log(LogLevel::Debug, |_, _| ()).build().unwrap();
    cycle(&runtime, rounds / 20);
    let before = common::resident_kib();
    cycle(&runtime, rounds);
    let after = common::resident_kib();
    assert!(after < before + 2048, "{} KiB became {}", before, after);
}
