//! quorate: attacks on replicas, and judges of replicas.
//!
//! [`byzantine`] makes an honest replica misbehave. [`twins`] plays scripted scenarios with replicas that exist twice,
//! and shows historical bugs. [`oracles`] judge what replicas have signed, ordered and stored, and share no code with
//! them.

pub mod byzantine;
pub mod oracles;
pub mod twins;
