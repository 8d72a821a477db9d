// SPDX-License-Identifier: Apache-2.0
//! What tests share: the numbers that bindings/tests/reference.c wrote.
#![allow(dead_code)]
use moert::*;
use std::collections::HashMap;

pub struct Reference {
    pub shape: [usize; 6],
    values: HashMap<String, Vec<u32>>,
    floats: HashMap<String, Vec<f32>>,
}

const WEIGHTS: [(&str, Role); 8] = [
    ("router", Role::Router),
    ("expert_gate", Role::ExpertGate),
    ("expert_up", Role::ExpertUp),
    ("expert_down", Role::ExpertDown),
    ("shared_gate", Role::SharedGate),
    ("shared_up", Role::SharedUp),
    ("shared_down", Role::SharedDown),
    ("shared_expert_gate", Role::SharedExpertGate),
];

impl Reference {
    pub fn load() -> Self {
        let path = std::env::var("MOERT_REFERENCE").expect("MOERT_REFERENCE names a file");
        let text = std::fs::read_to_string(path).unwrap();
        let mut values = HashMap::new();
        for line in text.lines() {
            let mut words = line.split(' ');
            let (name, count) = (words.next().unwrap(), words.next().unwrap());
            let bits: Vec<u32> = words.map(|w| u32::from_str_radix(w, 16).unwrap()).collect();
            assert_eq!(bits.len().to_string(), count);
            values.insert(name.to_owned(), bits);
        }
        let floats = values
            .iter()
            .map(|(name, bits)| (name.clone(), bits.iter().map(|&b| f32::from_bits(b)).collect()))
            .collect();
        let mut shape = [0; 6];
        for (to, from) in shape.iter_mut().zip(&values["shape"]) {
            *to = *from as usize;
        }
        Self { shape, values, floats }
    }

    pub fn bits(&self, name: &str) -> Vec<u32> {
        self.values[name].clone()
    }

    pub fn floats(&self, name: &str) -> Vec<f32> {
        self.floats[name].clone()
    }

    pub fn ints(&self, name: &str) -> Vec<i32> {
        self.values[name].iter().map(|&b| b as i32).collect()
    }

    pub fn routing(&self) -> Routing {
        Routing::new(self.shape[3] as i32, self.shape[4] as i32).renormalize(Renormalize::Sum)
    }

    fn rows_cols(&self, name: &str) -> (usize, usize) {
        let [_, h, i, e, _, s] = self.shape;
        match name {
            "router" => (e, h),
            "expert_gate" | "expert_up" => (i, h),
            "expert_down" => (h, i),
            "shared_down" => (h, s),
            "shared_expert_gate" => (1, h),
            _ => (s, h),
        }
    }

    pub fn layer_config(&self) -> LayerConfig<'_> {
        self.layer_config_of(&self.floats)
    }

    pub fn layer_config_of<'a, T: Element>(
        &self,
        weights: &'a HashMap<String, Vec<T>>,
    ) -> LayerConfig<'a> {
        let [_, h, i, _, _, s] = self.shape;
        let mut config =
            LayerConfig::new(h as i64, i as i64, self.routing()).shared_intermediate(s as i64);
        for (name, role) in WEIGHTS {
            let (rows, cols) = self.rows_cols(name);
            config = config.weight(Weight::new(role, &weights[name], rows, cols));
        }
        config
    }

    pub fn bf16_weights(&self) -> HashMap<String, Vec<Bf16>> {
        let narrow =
            |(name, values): (&String, &Vec<f32>)| (name.clone(), Bf16::from_f32_slice(values));
        self.floats.iter().map(narrow).collect()
    }
}

pub fn bits(values: &[f32]) -> Vec<u32> {
    values.iter().map(|v| v.to_bits()).collect()
}

/// Resident memory of this process in KiB.
pub fn resident_kib() -> usize {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse::<usize>().unwrap() * 4
}
