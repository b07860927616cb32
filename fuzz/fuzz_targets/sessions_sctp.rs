#![no_main]

quorate_fuzz::sessions!(SCTP, PLAIN);
