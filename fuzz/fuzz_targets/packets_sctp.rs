#![no_main]

quorate_fuzz::packets!(SCTP, PLAIN);
