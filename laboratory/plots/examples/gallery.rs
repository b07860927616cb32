//! Writes a page with a figure of each kind, and each figure as SVG, PDF, TikZ and Vega-Lite:
//! `cargo run --example gallery -- DIR`.

use std::error::Error;
use std::fs;
use std::path::PathBuf;

use quorate_plots::Width;

#[path = "../tests/samples.rs"]
mod samples;

fn main() -> Result<(), Box<dyn Error>> {
    let directory = PathBuf::from(std::env::args().nth(1).ok_or("usage: gallery DIR")?);
    fs::create_dir_all(&directory)?;
    fs::write(directory.join("gallery.html"), quorate_plots::page(&samples::page())?)?;
    for figure in samples::all() {
        for (width, name) in [(Width::Column, "column"), (Width::Text, "text")] {
            let stem = format!("{}-{name}", figure.id);
            fs::write(directory.join(format!("{stem}.svg")), quorate_plots::svg(&figure, width)?)?;
            fs::write(directory.join(format!("{stem}.pdf")), quorate_plots::pdf(&figure, width)?)?;
            fs::write(directory.join(format!("{stem}.tex")), quorate_plots::tikz(&figure, width)?)?;
            fs::write(directory.join(format!("{stem}.vl.json")), quorate_plots::vega_lite(&figure, width)?)?;
        }
    }
    println!("wrote {}", directory.join("gallery.html").display());
    Ok(())
}
