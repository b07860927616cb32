//! Tests of the formulas: by enumeration, by simulation of single messages, and by their properties.

mod answer;
mod binomial;
mod bounds;
mod enumeration;
mod packets;
mod plan_cpu;
mod plan_fpga;
mod play;
mod race;
mod success;
