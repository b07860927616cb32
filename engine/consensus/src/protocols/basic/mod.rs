//! Basic HotStuff: Yin, Malkhi, Reiter, Golan-Gueta, Abraham, "HotStuff: BFT consensus with linearity and
//! responsiveness", PODC 2019, algorithms 1 and 2. One block per view, in four phases: prepare, pre-commit, commit,
//! decide.
//!
//! Differences from the paper, and their justification:
//!
//! - **A view begins with a certificate of the previous view**: a commitQC, or n-f timeouts. In the paper the leader
//!   waits for n-f NEW-VIEW messages with each sender's prepareQC, so that one of them is at least as high as any lock
//!   that it may encounter. A replica that enters by commitQC(v-1) need not ask the others. No lock is in view v or
//!   above, since nothing has been prepared there yet; a lock of view v-1 is on the block of commitQC(v-1), since a
//!   view has at most one prepareQC, and the new block extends it (safeNode, line 26); a lower lock is older than the
//!   certificate in the new block (line 27). After a timeout of v-1 the n-f timeouts are the NEW-VIEW messages: each
//!   carries the sender's highest prepareQC, and its signature covers that certificate's view. A replica locked in view
//!   w knows that n-f replicas with prepareQC(w) cast pre-commit votes in w. At least one of them is honest and among
//!   the n-f timeouts. An honest replica votes in no phase of a view after timing out of it, so its timeout came later
//!   and names w or a higher view.
//! - **A certificate of a later phase replaces a lost prepareQC.** A precommitQC or commitQC of a block shows that a
//!   quorum saw its prepareQC; a replica that has only the later certificate extends that one.
//! - **A commitQC locks like its precommitQC**, in case that one was lost.
//! - **Certificates are accepted from any sender**; the paper accepts them only from the leader.

pub mod engine;
pub mod message;
pub mod rules;

use crate::protocols::views::ViewEngine;
pub use engine::BasicHotStuff;

/// Engine of basic HotStuff, as hosts and tests name it.
pub type BasicEngine = ViewEngine<BasicHotStuff>;
