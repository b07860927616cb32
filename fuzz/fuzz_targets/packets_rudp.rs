#![no_main]

quorate_fuzz::packets!(RUDP, PLAIN);
