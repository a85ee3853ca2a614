// SPDX-License-Identifier: BSD-3-Clause
//! Two processes throw tag messages to and fro, then an active message with its answer. Neither of them spins: each
//! sleeps on the descriptor of its worker until something happens, and says at the end how often it did.
//!
//!     ping_pong          starts itself once more as `ping_pong pong`; worker addresses go through the pipes between them

mod node;

use node::{die, ucp_ep_h, ucp_tag_t, Node};
use std::process::{Command, Stdio};
use std::{env, io, thread, time::Duration};

const SIZES: [usize; 4] = [0, 8, 4096, 4 << 20]; // the last one by rendezvous
const ROUNDS: usize = 10; // of each size
const BALL: ucp_tag_t = 1;

/// Each side pauses before it throws, so the other one has to wait; and who sleeps does not turn often.
fn end(node: &mut Node, ep: ucp_ep_h, name: &str) {
    node.close(ep);
    let line = format!("{name}: {} turns of the loop, slept {} times\n", node.turns, node.sleeps);
    eprint!("{line}"); // in one piece: the other one writes too
    if node.sleeps < SIZES.len() * ROUNDS / 2 || node.turns > 20_000 {
        die("that is not sleeping");
    }
}

fn pong() -> Result<(), io::Error> {
    let mut node = Node::new();
    node.write_address(&mut io::stdout())?;
    let ep = node.connect(&mut io::stdin())?;

    for _ in 0..SIZES.len() * ROUNDS {
        let mut ball = node.receive(BALL);
        ball.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
        thread::sleep(Duration::from_millis(2));
        node.send(ep, BALL, &ball);
    }
    let mut text = node.read_letter();
    text.reverse();
    node.write_letter(ep, &text);
    end(&mut node, ep, "pong");
    Ok(())
}

fn ping() -> Result<(), io::Error> {
    let mut other =
        Command::new(env::current_exe()?).arg("pong").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut node = Node::new();
    node.write_address(other.stdin.as_mut().unwrap())?;
    let ep = node.connect(other.stdout.as_mut().unwrap())?;

    for round in 0..SIZES.len() * ROUNDS {
        let ball: Vec<u8> = (0..SIZES[round / ROUNDS]).map(|i| (i * 7 + round) as u8).collect();
        thread::sleep(Duration::from_millis(2));
        node.send(ep, BALL, &ball);
        if !node.receive(BALL).into_iter().eq(ball.iter().map(|byte| byte.wrapping_add(1))) {
            die(&format!("round {round} came back wrong"));
        }
    }
    let text: Vec<u8> = (0..1_000_000).map(|i| (i % 251) as u8).collect();
    node.write_letter(ep, &text);
    if !node.read_letter().iter().eq(text.iter().rev()) {
        die("the answer to the active message is wrong");
    }
    end(&mut node, ep, "ping");
    if !other.wait()?.success() { // until here the node lives: the other one may still have been closing
        die("the other one failed");
    }
    Ok(())
}

fn main() {
    let played = match env::args().nth(1).as_deref() {
        None => ping(),
        Some("pong") => pong(),
        _ => die("usage: ping_pong"),
    };
    played.unwrap_or_else(|error| die(&error.to_string()));
}
