// SPDX-License-Identifier: Apache-2.0
//! Errors, lifetimes, callbacks and threads.
mod common;
use common::Reference;
use moert::*;
use std::sync::{Arc, Mutex};

fn device() -> Device {
    Runtime::new().unwrap().device("cpu").unwrap()
}

/// One expert that returns silu(x) * x for a width of 1.
fn tiny(device: &Device) -> Layer {
    let one = [1.0f32];
    let weight = |role| Weight::new(role, &one, 1, 1);
    LayerConfig::new(1, 1, Routing::new(1, 1))
        .weight(weight(Role::Router))
        .weight(weight(Role::ExpertGate))
        .weight(weight(Role::ExpertUp))
        .weight(weight(Role::ExpertDown))
        .build(device)
        .unwrap()
}

#[test]
fn the_loaded_library_is_the_one_that_the_crate_was_written_for() {
    assert_eq!(abi_version(), sys::MOERT_ABI_VERSION);
    assert!(version().starts_with("0.1."));
    assert!(family_names().contains("qwen2_moe"));
    assert_eq!((dtype_name(Dtype::Bfloat16).as_str(), dtype_bits(Dtype::Bfloat16)), ("BF16", 16));
}

#[test]
fn the_cpu_comes_first_among_the_devices() {
    let runtime = Runtime::new().unwrap();
    let devices = runtime.devices().unwrap();
    assert_eq!((devices[0].kind, devices[0].id.as_str()), (DeviceKind::Cpu, "cpu"));
    let two = DeviceConfig::default().cpu_threads(2).build(&runtime, "cpu").unwrap();
    assert_eq!(two.info().unwrap().concurrency, 2);
}

#[test]
fn a_failure_brings_its_status_and_text() {
    let runtime = Runtime::new().unwrap();
    let error = runtime.device("tpu:0").unwrap_err();
    assert_ne!(error.status(), Status::Internal);
    assert!(error.message().contains("tpu:0"), "{}", error);
    assert_eq!(runtime.device("a\0b").unwrap_err().status(), Status::InvalidArgument);

    let device = device();
    let error = LayerConfig::new(1, 1, Routing::new(4, 9)).build(&device).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.message().contains("top_k 9"), "{}", error);
    assert!(error.to_string().starts_with("INVALID_ARGUMENT: "), "{}", error);

    let error = Manifest::open(&runtime, "/no/such/file.moem").unwrap_err();
    assert_eq!(error.status(), Status::NotFound);
    assert!(error.message().contains("/no/such/file.moem"), "{}", error);

    let config = ManifestConfig::default().base_dir("/tmp");
    let error = config.open_bytes(&runtime, b"not a manifest, too short").unwrap_err();
    assert_eq!(error.status(), Status::CorruptData);
    assert!(error.corruption().is_some());
}

#[test]
fn shapes_are_judged_before_c_sees_them() {
    let device = device();
    let layer = tiny(&device);
    let mut stream = device.stream().unwrap();
    let mut y = [7.0f32; 2];
    let x = Matrix::strided(&[1.0f32, 2.0], 3, 1, 1);
    let error = layer.forward(&mut stream, Forward::new(x, &mut y)).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert!(error.message().contains("x of 3 rows"), "{}", error);
    let error = layer.forward(&mut stream, Forward::new(&[1.0f32; 3], &mut y)).unwrap_err();
    assert_eq!(error.status(), Status::InvalidArgument);
    assert_eq!(y, [7.0; 2]);
    let weight = Weight::new(Role::Router, &[1.0f32; 3], 2, 2);
    let error =
        LayerConfig::new(2, 2, Routing::new(2, 1)).weight(weight).build(&device).unwrap_err();
    assert!(error.message().contains("Router"), "{}", error);
    let buffer = device.buffer(8).unwrap();
    let args = Forward::new(buffer.matrix::<f32>(4, 2, 1), &mut y);
    assert!(layer.forward(&mut stream, args).is_err());
}

#[test]
fn a_bad_expert_id_is_reported_and_the_rest_computed() {
    let device = device();
    let layer = tiny(&device);
    let mut stream = device.stream().unwrap();
    let mut y = [7.0f32; 2];
    let args = Forward::new(&[1.0f32, 1.0], &mut y).routing(&[5, 0], &[1.0f32, 1.0]);
    let error = layer.forward(&mut stream, args).unwrap_err();
    assert_eq!(error.status(), Status::InvalidRouting);
    assert_eq!(y[0], 0.0);
    assert!((y[1] - 0.731_058_6).abs() < 1e-6);
    stream.check().unwrap();
}

#[test]
fn children_outlive_their_parents() {
    let runtime = Runtime::new().unwrap();
    let device = runtime.device("cpu").unwrap();
    drop(runtime);
    let layer = tiny(&device);
    let mut stream = device.stream().unwrap();
    drop(device);
    let mut y = [0.0f32];
    layer.forward(&mut stream, Forward::new(&[1.0f32], &mut y)).unwrap();
    assert!((y[0] - 0.731_058_6).abs() < 1e-6);
    drop(layer);
    stream.synchronize().unwrap();
}

#[test]
fn empty_matrices_do_nothing() {
    let device = device();
    let layer = tiny(&device);
    let (x, mut y): ([f32; 0], [f32; 0]) = ([], []);
    layer.forward(&mut device.stream().unwrap(), Forward::new(&x, &mut y)).unwrap();
}

#[test]
fn the_weights_of_a_trainable_layer_are_read_and_written() {
    let r = Reference::load();
    let device = device();
    let layer = r.layer_config().trainable().build(&device).unwrap();
    let mut stream = device.stream().unwrap();
    let [_, h, i, ..] = r.shape;
    let mut up = vec![0.0f32; i * h];
    layer.read_weight(&mut stream, Role::ExpertUp, 1, &mut up).unwrap();
    assert_eq!(up, r.floats("expert_up")[i * h..2 * i * h]);
    up.fill(0.0);
    layer.write_weight(&mut stream, Role::ExpertUp, 1, &up).unwrap();
    up.fill(1.0);
    layer.read_weight(&mut stream, Role::ExpertUp, 1, &mut up).unwrap();
    assert!(up.iter().all(|&v| v == 0.0));
    assert!(layer.read_weight(&mut stream, Role::ExpertUp, 1, &mut [0.0f32]).is_err());
}

#[test]
fn log_lines_reach_the_closure_which_is_dropped_with_the_runtime() {
    let lines = Arc::new(Mutex::new(Vec::new()));
    let sink = lines.clone();
    let runtime = Runtime::config()
        .log(LogLevel::Debug, move |level, text| {
            sink.lock().unwrap().push((level, text.to_owned()))
        })
        .build()
        .unwrap();
    let folder = Checkpoint::new("log");
    Pack::new(&folder.0).run(&runtime).unwrap();
    drop(runtime);
    let lines = Arc::try_unwrap(lines).expect("the closure is dropped").into_inner().unwrap();
    assert!(!lines.is_empty());
}

#[test]
fn a_panic_in_a_callback_ends_there() {
    let quiet = std::panic::take_hook();
    std::panic::set_hook(Box::new(|_| ()));
    let runtime =
        Runtime::config().log(LogLevel::Debug, |_, _| panic!("of the test")).build().unwrap();
    let folder = Checkpoint::new("panic");
    Pack::new(&folder.0).run(&runtime).unwrap();
    let error = Pack::new(&folder.0).progress(|_, _| panic!("of the test")).run(&runtime);
    std::panic::set_hook(quiet);
    assert_eq!(error.unwrap_err().status(), Status::CallbackFailed);
}

#[test]
fn progress_is_told_and_can_stop_a_call() {
    let runtime = Runtime::new().unwrap();
    let folder = Checkpoint::new("progress");
    let mut last = (0, 0);
    Pack::new(&folder.0)
        .progress(|done, total| {
            last = (done, total);
            true
        })
        .run(&runtime)
        .unwrap();
    assert!(last.0 == last.1 && last.1 > 0, "{:?}", last);
    let manifest = Manifest::open(&runtime, folder.0.join("model.moem")).unwrap();
    manifest.verify().unwrap();
    manifest.verify_with(|_, _| true).unwrap();
    let error = manifest.verify_with(|_, _| false).unwrap_err();
    assert_eq!(error.status(), Status::CallbackFailed);
}

/// A copy of a small checkpoint that goes away with the test.
struct Checkpoint(std::path::PathBuf);

impl Checkpoint {
    fn new(name: &str) -> Self {
        let from = std::path::PathBuf::from(std::env::var("MOERT_CHECKPOINT").unwrap());
        let to = std::env::temp_dir().join(format!("moert-{}-{}", std::process::id(), name));
        std::fs::create_dir_all(&to).unwrap();
        for file in ["config.json", "model.safetensors"] {
            std::fs::copy(from.join(file), to.join(file)).unwrap();
        }
        Self(to)
    }
}

impl Drop for Checkpoint {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

#[test]
fn a_packed_manifest_is_inspected_and_its_layers_opened() {
    let runtime = Runtime::new().unwrap();
    let folder = Checkpoint::new("inspect");
    let output = folder.0.join("other.moem");
    let packed = Pack::new(&folder.0).output(&output).run(&runtime).unwrap();
    let manifest =
        ManifestConfig::default().read().base_dir(&folder.0).open(&runtime, &output).unwrap();
    let info = manifest.info().unwrap();
    assert_eq!((info.num_layers, info.num_tensors), (packed.num_layers, packed.num_tensors));
    assert_eq!(info.model_type, "qwen2_moe");
    assert_eq!(manifest.file(0).unwrap().path, "model.safetensors");
    let layer_info = manifest.layer(0).unwrap();
    let routing = manifest.layer_routing(0).unwrap();
    assert_eq!((layer_info.num_experts, layer_info.top_k), (routing.num_experts, routing.top_k));
    let (activation, _) = manifest.layer_activation(0).unwrap();
    assert_eq!(activation.kind, ActivationKind::Silu);
    assert_eq!(manifest.find_layer(layer_info.model_layer).unwrap(), 0);
    let weight = manifest.layer_weight(0, 0).unwrap();
    let tensor = manifest.tensor(weight.tensors[0].into()).unwrap();
    assert_eq!(manifest.find_tensor(&tensor.name).unwrap(), u64::from(weight.tensors[0]));
    let elements: i64 = tensor.shape.iter().product();
    let data = manifest.tensor_data(weight.tensors[0].into()).unwrap();
    assert_eq!(data.len() as i64 * 8, elements * i64::from(dtype_bits(tensor.dtype)));

    let device = runtime.device("cpu").unwrap();
    let options = LayerOptions::default().dtype(Dtype::Float32);
    let layer = Layer::open(&device, &manifest, 0, &options).unwrap();
    drop(manifest);
    assert_eq!(layer.info().hidden, layer_info.hidden);
    let x = vec![0.5f32; 3 * layer_info.hidden as usize];
    let mut y = vec![f32::NAN; x.len()];
    layer.forward(&mut device.stream().unwrap(), Forward::new(&x, &mut y)).unwrap();
    assert!(y.iter().all(|v| v.is_finite()));
}

/// Compiles only if the types may cross threads.
#[test]
fn objects_are_send_and_sync() {
    fn check<T: Send + Sync>() {}
    check::<(Runtime, Device, Buffer, Manifest, Layer, Router, Gate)>();
    check::<(Stream, Event, Error)>();
}

#[test]
fn many_threads_run_one_layer() {
    let device = device();
    let layer = tiny(&device);
    std::thread::scope(|scope| {
        for t in 0..8 {
            let (device, layer) = (&device, &layer);
            scope.spawn(move || {
                let mut stream = device.stream().unwrap();
                for _ in 0..500 {
                    let (x, mut y) = ([t as f32], [f32::NAN]);
                    layer.forward(&mut stream, Forward::new(&x, &mut y)).unwrap();
                    let want = x[0] * x[0] / (1.0 + (-x[0]).exp());
                    assert!((y[0] - want).abs() <= 1e-5 * want.abs());
                }
            });
        }
    });
}

#[test]
fn bfloat16_rounds_to_the_nearest_even() {
    let cases = [
        (0x3f80_8000u32, 0x3f80), // A tie goes down to the even one,
        (0x3f81_8000, 0x3f82),    // or up to it.
        (0x3f80_8001, 0x3f81),
        (0x7f7f_ffff, 0x7f80), // The largest float32 becomes infinity.
        (0x7f80_0001, 0x7fc0), // A NaN stays one.
        (0xff80_0000, 0xff80),
        (0x0000_0001, 0x0000),
    ];
    for (from, to) in cases {
        assert_eq!(Bf16::from_f32(f32::from_bits(from)).0, to, "{:x}", from);
    }
    assert_eq!(Bf16::to_f32_slice(&[Bf16(0xc040)]), [-3.0]);
}
