#![no_main]

quorate_fuzz::sessions!(UDP, PLAIN);
