// SPDX-License-Identifier: Apache-2.0
//! Owned references to the library's objects.
use crate::sys;
use std::fmt;
use std::ptr::NonNull;

/// A type of the C ABI that `_release` drops.
pub(crate) trait Release {
    /// # Safety
    /// `this` is a reference that the caller owns.
    unsafe fn release(this: *const Self);
}

macro_rules! release {
    ($($type:ident: $function:ident;)*) => {
        $(impl Release for sys::$type {
            unsafe fn release(this: *const Self) {
                sys::$function(this)
            }
        })*
    };
}

release! {
    moert_runtime: moert_runtime_release;
    moert_device: moert_device_release;
    moert_stream: moert_stream_release;
    moert_event: moert_event_release;
    moert_manifest: moert_manifest_release;
    moert_layer: moert_layer_release;
    moert_gate: moert_gate_release;
    moert_router: moert_router_release;
}

/// One reference.
pub(crate) struct Handle<T: Release>(NonNull<T>);

// SAFETY: the ABI lets a handle be used and released on any thread, and calls that take it as const
// run at the same time. Types that own a Handle take `&mut self` for the other calls.
unsafe impl<T: Release> Send for Handle<T> {}
unsafe impl<T: Release> Sync for Handle<T> {}

impl<T: Release> Handle<T> {
    /// Takes over the reference that a successful `_create` wrote.
    pub(crate) fn new(created: *mut T) -> Self {
        Self(NonNull::new(created).expect("a successful call gives a handle"))
    }

    pub(crate) fn as_ptr(&self) -> *mut T {
        self.0.as_ptr()
    }
}

impl<T: Release> fmt::Debug for Handle<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl<T: Release> Drop for Handle<T> {
    fn drop(&mut self) {
        // SAFETY: this is the only owner of the reference.
        unsafe { T::release(self.0.as_ptr()) }
    }
}
