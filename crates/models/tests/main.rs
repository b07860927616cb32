//! Tests of the formulas: against enumeration, against a simulation of single messages, and by their properties.

mod binomial;
mod bounds;
mod enumeration;
mod play;
mod success;
