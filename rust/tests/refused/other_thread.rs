// SPDX-License-Identifier: BSD-3-Clause
//! E0277: workers, and what belongs to them, stay in their thread.
use causeway::Context;

pub fn start(context: Context) -> causeway::Result<()> {
    let worker = context.worker()?;
    #[cfg(accepted)]
    let moved = context.clone();
    #[cfg(not(accepted))]
    let moved = worker.clone();
    std::thread::spawn(move || drop(moved));
    drop(worker);
    Ok(())
}
