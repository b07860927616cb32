mod browser;
mod colours;
mod drawings;
mod files;
mod limits;
mod pages;
mod samples;
mod scales;
