// SPDX-License-Identifier: Apache-2.0
//! Manifests: packed, opened, inspected.
use crate::error::call;
use crate::handle::Handle;
use crate::{
    sys, text, Activation, FileInfo, LayerInfo, ManifestInfo, PackResult, Result, Routing, Runtime,
    TensorInfo, WeightInfo,
};
use std::ffi::CString;
use std::os::raw::c_void;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::path::{Path, PathBuf};
use std::ptr;

/// Hears how far a long call is, in bytes done and in all; false stops the call.
type Progress<'a> = dyn FnMut(u64, u64) -> bool + Send + 'a;

/// # Safety
/// `user_data` is a pointer to a [`Progress`] reference that no other call uses.
unsafe extern "C" fn report(user_data: *mut c_void, done: u64, total: u64) -> i32 {
    let progress = &mut *user_data.cast::<&mut Progress<'_>>();
    // A panic must not unwind through C frames; it stops the call.
    match catch_unwind(AssertUnwindSafe(|| progress(done, total))) {
        Ok(true) => 0,
        _ => 1,
    }
}

/// Writes a manifest for a Hugging Face checkpoint; no weight is copied.
#[derive(Default)]
pub struct Pack<'a> {
    directory: PathBuf,
    output: Option<PathBuf>,
    family: Option<PathBuf>,
    flags: u32,
    progress: Option<Box<Progress<'a>>>,
}

impl<'a> Pack<'a> {
    /// The folder with config.json and the safetensors files.
    pub fn new(directory: impl Into<PathBuf>) -> Self {
        Self { directory: directory.into(), ..Default::default() }
    }

    /// The manifest to write; without it model.moem in the folder.
    #[must_use]
    pub fn output(mut self, path: impl Into<PathBuf>) -> Self {
        self.output = Some(path.into());
        self
    }

    /// A family description (JSON) to use instead of a built-in one.
    #[must_use]
    pub fn family(mut self, path: impl Into<PathBuf>) -> Self {
        self.family = Some(path.into());
        self
    }

    /// Records sizes only.
    #[must_use]
    pub fn skip_hashes(mut self) -> Self {
        self.flags |= sys::MOERT_PACK_FLAG_SKIP_HASHES;
        self
    }

    /// Accepts shards with bytes that belong to no tensor.
    #[must_use]
    pub fn allow_holes(mut self) -> Self {
        self.flags |= sys::MOERT_PACK_FLAG_ALLOW_HOLES;
        self
    }

    /// Reports bytes done and in all; false or a panic stops the call with
    /// [`crate::Status::CallbackFailed`].
    #[must_use]
    pub fn progress(mut self, f: impl FnMut(u64, u64) -> bool + Send + 'a) -> Self {
        self.progress = Some(Box::new(f));
        self
    }

    /// Packs. The file appears whole or not at all.
    pub fn run(mut self, runtime: &Runtime) -> Result<PackResult> {
        let directory = text::c_path(&self.directory)?;
        let output = self.output.as_deref().map(text::c_path).transpose()?;
        let family = self.family.as_deref().map(text::c_path).transpose()?;
        let mut desc = sys::moert_pack_desc {
            flags: self.flags,
            directory: directory.as_ptr(),
            output: text::pointer(&output),
            family_path: text::pointer(&family),
            ..Default::default()
        };
        let mut progress = self.progress.as_deref_mut();
        if let Some(progress) = &mut progress {
            desc.progress = Some(report);
            desc.user_data = (progress as *mut &mut Progress<'_>).cast();
        }
        let mut raw = sys::moert_pack_result::default();
        call(|error| unsafe {
            sys::moert_manifest_pack(runtime.as_ptr(), &desc, &mut raw, error)
        })?;
        PackResult::from_raw(&raw)
    }
}

/// How to open a manifest.
#[derive(Clone, Debug, Default)]
pub struct ManifestConfig {
    base_dir: Option<PathBuf>,
    flags: u32,
}

impl ManifestConfig {
    /// Folder of the files; without it the manifest's own.
    #[must_use]
    pub fn base_dir(mut self, path: impl Into<PathBuf>) -> Self {
        self.base_dir = Some(path.into());
        self
    }

    /// Refuses files reached through a symbolic link.
    #[must_use]
    pub fn forbid_symlinks(mut self) -> Self {
        self.flags |= sys::MOERT_MANIFEST_FLAG_FORBID_SYMLINKS;
        self
    }

    /// Reads files into memory instead of mapping them.
    #[must_use]
    pub fn read(mut self) -> Self {
        self.flags |= sys::MOERT_MANIFEST_FLAG_READ;
        self
    }

    /// Opens the manifest at that path.
    pub fn open(&self, runtime: &Runtime, path: impl AsRef<Path>) -> Result<Manifest> {
        let path = text::c_path(path.as_ref())?;
        let desc = sys::moert_manifest_desc { path: path.as_ptr(), ..Default::default() };
        self.build(runtime, desc)
    }

    /// Opens a manifest in memory, which is copied.
    pub fn open_bytes(&self, runtime: &Runtime, data: &[u8]) -> Result<Manifest> {
        let desc = sys::moert_manifest_desc {
            data: data.as_ptr().cast(),
            size: data.len() as u64,
            ..Default::default()
        };
        self.build(runtime, desc)
    }

    fn build(&self, runtime: &Runtime, desc: sys::moert_manifest_desc) -> Result<Manifest> {
        let base_dir: Option<CString> = self.base_dir.as_deref().map(text::c_path).transpose()?;
        let desc = sys::moert_manifest_desc {
            flags: self.flags,
            base_dir: text::pointer(&base_dir),
            ..desc
        };
        let mut out = ptr::null_mut();
        call(|error| unsafe {
            sys::moert_manifest_open(runtime.as_ptr(), &desc, &mut out, error)
        })?;
        Ok(Manifest { handle: Handle::new(out) })
    }
}

/// An opened, verified manifest with its files mapped.
#[derive(Debug)]
pub struct Manifest {
    handle: Handle<sys::moert_manifest>,
}

impl Manifest {
    /// Opens the manifest at that path; [`ManifestConfig`] has options.
    pub fn open(runtime: &Runtime, path: impl AsRef<Path>) -> Result<Self> {
        ManifestConfig::default().open(runtime, path)
    }

    /// Reads every file: sizes, hashes and headers against what was packed.
    pub fn verify(&self) -> Result<()> {
        call(|error| unsafe {
            sys::moert_manifest_verify(self.as_ptr(), None, ptr::null_mut(), error)
        })
    }

    /// As [`Manifest::verify`]; `f` hears bytes done and in all, and false or a panic stops the
    /// call.
    pub fn verify_with(&self, mut f: impl FnMut(u64, u64) -> bool + Send) -> Result<()> {
        let mut progress: &mut Progress<'_> = &mut f;
        let user_data = (&mut progress as *mut &mut Progress<'_>).cast();
        call(|error| unsafe {
            sys::moert_manifest_verify(self.as_ptr(), Some(report), user_data, error)
        })
    }

    /// Facts about the manifest.
    pub fn info(&self) -> Result<ManifestInfo> {
        let mut raw = sys::moert_manifest_info::default();
        call(|error| unsafe { sys::moert_manifest_get_info(self.as_ptr(), &mut raw, error) })?;
        unsafe { ManifestInfo::from_raw(&raw) }
    }

    /// The index-th file.
    pub fn file(&self, index: u32) -> Result<FileInfo> {
        let mut raw = sys::moert_file_info::default();
        call(|error| unsafe { sys::moert_manifest_file(self.as_ptr(), index, &mut raw, error) })?;
        unsafe { FileInfo::from_raw(&raw) }
    }

    /// The index-th tensor, in the order of names.
    pub fn tensor(&self, index: u64) -> Result<TensorInfo> {
        let mut raw = sys::moert_tensor_info::default();
        call(|error| unsafe { sys::moert_manifest_tensor(self.as_ptr(), index, &mut raw, error) })?;
        unsafe { TensorInfo::from_raw(&raw) }
    }

    /// Index of the tensor of that name.
    pub fn find_tensor(&self, name: &str) -> Result<u64> {
        let name = text::c_string(name)?;
        let mut out = 0;
        call(|error| unsafe {
            sys::moert_manifest_find_tensor(self.as_ptr(), name.as_ptr(), &mut out, error)
        })?;
        Ok(out)
    }

    /// The bytes of a tensor where they lie, possibly unaligned. While they are mapped, nobody may
    /// change the file; [`ManifestConfig::read`] is for where that can happen.
    pub fn tensor_data(&self, index: u64) -> Result<&[u8]> {
        let bytes = self.tensor(index)?.bytes;
        let mut out = ptr::null();
        call(|error| unsafe {
            sys::moert_manifest_tensor_data(self.as_ptr(), index, &mut out, error)
        })?;
        if bytes == 0 {
            return Ok(&[]);
        }
        // SAFETY: the bytes live as long as the manifest.
        Ok(unsafe { std::slice::from_raw_parts(out.cast(), bytes as usize) })
    }

    /// The index-th MoE layer, in the model's order.
    pub fn layer(&self, index: u32) -> Result<LayerInfo> {
        let mut raw = sys::moert_layer_info::default();
        call(|error| unsafe { sys::moert_manifest_layer(self.as_ptr(), index, &mut raw, error) })?;
        LayerInfo::from_raw(&raw)
    }

    /// Index of the MoE layer with the model's own number.
    pub fn find_layer(&self, model_layer: i32) -> Result<u32> {
        let mut out = 0;
        call(|error| unsafe {
            sys::moert_manifest_find_layer(self.as_ptr(), model_layer, &mut out, error)
        })?;
        Ok(out)
    }

    /// A layer's routing.
    pub fn layer_routing(&self, index: u32) -> Result<Routing> {
        let mut raw = sys::moert_routing::default();
        call(|error| unsafe {
            sys::moert_manifest_layer_routing(self.as_ptr(), index, &mut raw, error)
        })?;
        Routing::from_raw(&raw)
    }

    /// A layer's activations: of the experts and of the shared expert.
    pub fn layer_activation(&self, index: u32) -> Result<(Activation, Activation)> {
        let mut experts = sys::moert_activation::default();
        let mut shared = sys::moert_activation::default();
        let manifest = self.as_ptr();
        call(|error| unsafe {
            sys::moert_manifest_layer_activation(manifest, index, &mut experts, &mut shared, error)
        })?;
        Ok((Activation::from_raw(&experts)?, Activation::from_raw(&shared)?))
    }

    /// The weight_index-th weight of a layer.
    pub fn layer_weight(&self, index: u32, weight_index: u32) -> Result<WeightInfo> {
        let mut raw = sys::moert_weight_info::default();
        let manifest = self.as_ptr();
        call(|error| unsafe {
            sys::moert_manifest_layer_weight(manifest, index, weight_index, &mut raw, error)
        })?;
        unsafe { WeightInfo::from_raw(&raw) }
    }

    pub(crate) fn as_ptr(&self) -> *mut sys::moert_manifest {
        self.handle.as_ptr()
    }
}
