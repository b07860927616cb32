#![no_main]

quorate_fuzz::sessions!(RUDP, DTLS);
