// SPDX-License-Identifier: BSD-3-Clause
//! Socket addresses as the system has them.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

const FAMILY_V4: u16 = 2;
const FAMILY_V6: u16 = 10;

/// struct sockaddr_in and struct sockaddr_in6 in one.
#[repr(C, align(8))]
pub(crate) struct RawAddress([u8; 28]);

impl RawAddress {
    pub(crate) fn new(address: SocketAddr) -> RawAddress {
        let mut raw = [0u8; 28];
        raw[2..4].copy_from_slice(&address.port().to_be_bytes());
        match address {
            SocketAddr::V4(v4) => {
                raw[..2].copy_from_slice(&FAMILY_V4.to_ne_bytes());
                raw[4..8].copy_from_slice(&v4.ip().octets());
            }
            SocketAddr::V6(v6) => {
                raw[..2].copy_from_slice(&FAMILY_V6.to_ne_bytes());
                raw[4..8].copy_from_slice(&v6.flowinfo().to_be_bytes());
                raw[8..24].copy_from_slice(&v6.ip().octets());
                raw[24..28].copy_from_slice(&v6.scope_id().to_ne_bytes());
            }
        }
        RawAddress(raw)
    }

    pub(crate) fn as_ptr(&self) -> *const crate::sys::sockaddr {
        self.0.as_ptr().cast()
    }

    pub(crate) fn length(&self) -> u32 {
        if u16::from_ne_bytes([self.0[0], self.0[1]]) == FAMILY_V4 {
            16
        } else {
            28
        }
    }
}

/// What the library filled in; `None` for a family that is no network's.
pub(crate) fn read(storage: &crate::sys::sockaddr_storage) -> Option<SocketAddr> {
    // SAFETY: a plain structure of more bytes, all of them initialised.
    let raw: &[u8; 28] = unsafe { &*(storage as *const crate::sys::sockaddr_storage).cast() };
    let port = u16::from_be_bytes([raw[2], raw[3]]);
    match storage.ss_family {
        FAMILY_V4 => Some(SocketAddr::new(IpAddr::V4(Ipv4Addr::new(raw[4], raw[5], raw[6], raw[7])), port)),
        FAMILY_V6 => {
            let octets: [u8; 16] = raw[8..24].try_into().ok()?;
            Some(SocketAddr::new(IpAddr::V6(Ipv6Addr::from(octets)), port))
        }
        _ => None,
    }
}
