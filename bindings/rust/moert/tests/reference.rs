// SPDX-License-Identifier: Apache-2.0
//! Values equal the C ABI's bit for bit: bindings/tests/reference.c wrote MOERT_REFERENCE.
mod common;
use common::{bits, Reference};
use moert::*;

#[test]
fn a_layer_and_its_routing_equal_the_c_abis() {
    let r = Reference::load();
    let device = Runtime::new().unwrap().device("cpu").unwrap();
    let layer = r.layer_config().build(&device).unwrap();
    let mut stream = device.stream().unwrap();
    let [t, h, _, e, k, _] = r.shape;
    let x = r.floats("x");
    let (mut y, mut ids) = (vec![f32::NAN; t * h], vec![7; t * k]);
    let (mut weights, mut logits) = (vec![f32::NAN; t * k], vec![f32::NAN; t * e]);
    let mut counts = vec![7; e];
    let args = Forward::new(&x, &mut y)
        .ids(&mut ids)
        .weights(&mut weights)
        .logits(&mut logits)
        .expert_counts(&mut counts);
    assert!(layer.workspace_size(&args).unwrap() > 0);
    layer.forward(&mut stream, args).unwrap();
    assert_eq!(bits(&y), r.bits("y"));
    assert_eq!(ids, r.ints("ids"));
    assert_eq!(bits(&weights), r.bits("weights"));
    assert_eq!(bits(&logits), r.bits("logits"));
    assert_eq!(counts, r.ints("expert_counts"));

    let given = r.ints("given_ids");
    let args = Forward::new(&x, &mut y).routing(&given, &weights).accumulate().skip_shared();
    layer.forward(&mut stream, args).unwrap();
    assert_eq!(bits(&y), r.bits("given_y"));
}

#[test]
fn a_bfloat16_layer_equals_the_c_abis() {
    let r = Reference::load();
    let device = Runtime::new().unwrap().device("cpu").unwrap();
    let weights = r.bf16_weights();
    let layer = r.layer_config_of(&weights).dtype(Dtype::Bfloat16).build(&device).unwrap();
    let x = Bf16::from_f32_slice(&r.floats("x"));
    assert_eq!(x.iter().map(|v| v.0 as u32).collect::<Vec<_>>(), r.bits("x_bf16"));
    let mut y = vec![Bf16(0x7fc0); x.len()];
    layer.forward(&mut device.stream().unwrap(), Forward::new(&x, &mut y)).unwrap();
    assert_eq!(y.iter().map(|v| v.0 as u32).collect::<Vec<_>>(), r.bits("y_bf16"));
}

#[test]
fn a_router_and_a_gate_op_equal_the_c_abis() {
    let r = Reference::load();
    let device = Runtime::new().unwrap().device("cpu").unwrap();
    let mut stream = device.stream().unwrap();
    let [t, h, _, _, k, _] = r.shape;
    let router = RouterConfig::new(0, r.routing()).build(&device).unwrap();
    let (mut ids, mut weights) = (vec![7; t * k], vec![f32::NAN; t * k]);
    let given = r.floats("router_given");
    let args = RouterForward::from_logits(&given, &mut ids, &mut weights);
    router.forward(&mut stream, args).unwrap();
    assert_eq!(ids, r.ints("router_ids"));
    assert_eq!(bits(&weights), r.bits("router_weights"));

    let gate = GateConfig::new(GateKind::AddRows, h as i64).build(&device).unwrap();
    let (x, g, mut out) = (r.floats("x"), r.floats("gate_g"), r.floats("gate_acc"));
    gate.forward(&mut stream, GateForward::new(&x, &g, &mut out)).unwrap();
    assert_eq!(bits(&out), r.bits("gate_out"));
}

#[test]
fn buffers_give_the_same_numbers_as_slices() {
    let r = Reference::load();
    let device = Runtime::new().unwrap().device("cpu").unwrap();
    let layer = r.layer_config().build(&device).unwrap();
    let [t, h, ..] = r.shape;
    let mut stream = device.async_stream().unwrap();
    let bytes = (t * h * 4) as u64;
    let (x, y) = (device.buffer(bytes).unwrap(), device.buffer(bytes).unwrap());
    stream.upload(&x, &r.floats("x")).unwrap();
    let args = Forward::new(x.matrix::<f32>(0, t, h), y.matrix_mut::<f32>(0, t, h));
    let bytes = layer.workspace_size(&args).unwrap();
    let workspace = device.buffer(bytes - 1).unwrap();
    let error = layer.forward(&mut stream, args.workspace(&workspace)).unwrap_err();
    assert_eq!(error.status(), Status::WorkspaceTooSmall);
    let workspace = device.buffer(bytes).unwrap();
    let args =
        Forward::new(x.matrix::<f32>(0, t, h), y.matrix_mut::<f32>(0, t, h)).workspace(&workspace);
    layer.forward(&mut stream, args).unwrap();
    let mut event = device.event().unwrap();
    assert!(event.query().unwrap());
    event.record(&mut stream).unwrap();
    // What work uses may be dropped before it is done.
    drop((x, workspace, layer));
    event.wait().unwrap();
    let mut other = device.stream().unwrap();
    other.wait_event(&event).unwrap();
    let mut result = vec![f32::NAN; t * h];
    other.download(&mut result, &y).unwrap();
    assert_eq!(bits(&result), r.bits("y"));
}
