//! quorate: attacks on replicas, and oracles.
//!
//! [`byzantine`] makes an honest replica misbehave. [`twins`] plays scripted scenarios with duplicated replicas, and
//! exhibits historical bugs. [`oracles`] check the replicas' statements, order and journals, and share no code with
//! them. [`copies`] repeats messages over links that lose some of them.

pub mod byzantine;
pub mod copies;
pub mod oracles;
pub mod twins;
