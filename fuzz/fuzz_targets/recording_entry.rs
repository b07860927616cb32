#![no_main]

quorate_fuzz::message!(quorate_recording::Entry);
