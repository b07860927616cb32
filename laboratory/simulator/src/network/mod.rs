//! Links, and streams over them.

mod csv;
mod delay;
mod end;
mod endpoints;
pub mod faults;
mod links;
mod placement;
mod routes;
mod spec;
mod tcp;

pub use crate::links::Loss;
pub use delay::{ClientRegions, Delay};
pub use end::End;
pub use endpoints::{Endpoints, Place, endpoint_name};
pub use links::{Fate, Links};
pub use placement::{ClientsAt, MAX_CLIENT_MACHINES, MachineSpec, place};
pub use routes::Route;
pub use spec::{Bandwidth, Delivery, DeliverySpec, Jitter, LinkSpec, NetworkSpec, Packets, Topology};
pub use tcp::{Endpoint, Segment, TcpCounts, TcpOptions, Todo};
