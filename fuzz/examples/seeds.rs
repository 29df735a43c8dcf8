//! Writes seeds to a folder for each target: what fuzzing starts from.

use std::error::Error;
use std::path::Path;

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    for target in criba_fuzz::targets() {
        let folder = Path::new(&folder).join(target);
        std::fs::create_dir_all(&folder)?;
        for (number, seed) in criba_fuzz::seeds(target).iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{number:02}")), seed)?;
        }
    }
    Ok(())
}
