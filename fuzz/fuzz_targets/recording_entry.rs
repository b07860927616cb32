#![no_main]

quorate_fuzz::message!(quorate_hosting::recording::Entry);
