//! Addresses that host names must not resolve to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Returns `true` if an address is public: not of this machine, its networks, or a service that
/// only machines of a cloud provider can reach. The proxy of a sandbox connects only to such
/// addresses if it resolves a host by name.
///
/// IPv4 addresses in IPv6 form (mapped, compatible, translated) are checked as IPv4 addresses.
pub fn is_public_address(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let [a, b, c, _] = address.octets();
    let is_special = match (a, b, c) {
        // This network, private networks, loopback, multicast and everything above.
        (0 | 10 | 127 | 224.., _, _)
        | (172, 16..=31, _)
        | (192, 168, _)
        // Link-local, where providers have their metadata.
        | (169, 254, _)
        // Networks of carriers, where other providers have it.
        | (100, 64..=127, _)
        // Protocol assignments, relays from IPv6, and benchmarks.
        | (192, 0, 0)
        | (192, 88, 99)
        | (198, 18..=19, _) => true,
        _ => false,
    };
    // Azure's service for its machines.
    !is_special && address != Ipv4Addr::new(168, 63, 129, 16)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    let segments = address.segments();
    let embedded = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        Ipv4Addr::new(a, b, c, d)
    };
    match segments {
        // Mapped, compatible, and translated forms of an IPv4 address; the unspecified address and loopback are
        // forms of `0.0.0.x`.
        [0, 0, 0, 0, 0, 0 | 0xFFFF, high, low]
        | [0, 0, 0, 0, 0xFFFF, 0, high, low]
        | [0x64, 0xFF9B, 0, 0, 0, 0, high, low]
        | [0x2002, high, low, ..] => is_public_v4(embedded(high, low)),
        // Translation of a network of one's own, and tunnels whose ends are written backwards.
        [0x64, 0xFF9B, 1, ..] | [0x2001, 0, ..] => false,
        // Only this block is given out; private, link-local, site-local and multicast addresses are outside of it.
        [first, ..] => first & 0xE000 == 0x2000,
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::is_public_address;

    #[test]
    fn private_local_and_metadata_addresses_are_not_public_in_any_form() {
        for text in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "127.0.0.1",
            "127.255.255.254",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "100.64.0.1",
            "100.100.100.200",
            "192.0.0.192",
            "198.18.0.1",
            "224.0.0.1",
            "255.255.255.255",
            "240.0.0.1",
            "168.63.129.16",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:10.0.0.1",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::7f00:1",
            "64:ff9b::a9fe:a9fe",
            "64:ff9b:1::1",
            "2002:7f00:1::",
            "2002:a9fe:a9fe::1",
            "2001::1",
            "fe80::1",
            "fc00::1",
            "fd00:ec2::254",
            "fec0::1",
            "ff02::1",
        ] {
            assert!(!is_public_address(text.parse::<IpAddr>().unwrap()), "{text}");
        }
    }

    #[test]
    fn addresses_of_the_internet_are_public() {
        for text in [
            "1.1.1.1",
            "93.184.216.34",
            "172.32.0.1",
            "100.128.0.1",
            "192.1.0.1",
            "223.255.255.255",
            "2606:4700:4700::1111",
            "2a00:1450::1",
            "::ffff:1.1.1.1",
            "64:ff9b::101:101",
        ] {
            assert!(is_public_address(text.parse::<IpAddr>().unwrap()), "{text}");
        }
    }
}
