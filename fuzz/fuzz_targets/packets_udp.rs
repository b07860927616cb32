#![no_main]

quorate_fuzz::packets!(UDP, PLAIN);
