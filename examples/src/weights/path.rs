//! Where a walk over a module's parameters is, and what PyTorch calls that place.

use super::{Place, TorchNames};
use burn::tensor::backend::Backend;

/// The way from a model to the parameter that a visitor or a mapper is at.
pub struct Path {
    fields: Vec<String>,
    /// For each field, the type that it is a field of, as the derived code names it.
    containers: Vec<String>,
    place: fn(&str) -> Place,
    linears_are_transposed: bool,
}

impl Path {
    /// The start of a walk over a model of type `M`.
    pub fn new<B: Backend, M: TorchNames<B>>() -> Self {
        Self {
            fields: Vec::new(),
            containers: Vec::new(),
            place: M::place,
            linears_are_transposed: M::LINEARS_ARE_TRANSPOSED,
        }
    }

    /// Into a field.
    pub fn enter(&mut self, field: &str, container: &str) {
        self.fields.push(field.to_owned());
        self.containers.push(container.to_owned());
    }

    /// Back out of the field.
    pub fn exit(&mut self) {
        self.fields.pop();
        self.containers.pop();
    }

    /// Whether PyTorch has the transpose of this parameter.
    pub fn is_transposed(&self) -> bool {
        self.linears_are_transposed
            && self.containers.last().is_some_and(|container| container == "Struct:Linear")
            && self.fields.last().is_some_and(|field| field == "weight")
    }

    /// PyTorch's place for this parameter.
    pub fn place(&self) -> Place {
        let of_norm = self.containers.last().is_some_and(|container| container.ends_with("Norm"));
        let last = match self.fields.last().map_or("", String::as_str) {
            "gamma" if of_norm => "weight",
            "beta" if of_norm => "bias",
            field => field,
        };
        let before = &self.fields[..self.fields.len().saturating_sub(1)];
        let path: Vec<&str> = before.iter().map(String::as_str).chain([last]).collect();
        (self.place)(&path.join("."))
    }
}
