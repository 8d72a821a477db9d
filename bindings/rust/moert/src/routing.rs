// SPDX-License-Identifier: Apache-2.0
//! Conveniences of generated settings.
use crate::{Activation, ActivationKind, Routing};

impl Routing {
    /// Softmax over all experts, the best `top_k` of them, no renormalisation.
    pub fn new(num_experts: i32, top_k: i32) -> Self {
        Self { num_experts, top_k, ..Self::default() }
    }
}

impl Activation {
    /// A gated activation of that kind.
    pub fn new(kind: ActivationKind) -> Self {
        Self { kind, ..Self::default() }
    }
}
