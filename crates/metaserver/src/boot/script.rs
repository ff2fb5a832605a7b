//! Scripts of iPXE, and the words of the kernel's command line.

use std::net::IpAddr;

use host::Repeated;
use namespace::{BootGroup, BootNode, BootRoot, NodeKey, read};

use super::paths::{image_of, own_volume, root_of};
use crate::Metaserver;
use crate::errors::FileError;

/// Questions of machines that boot nothing: anyone can ask.
static NOTHING_TO_BOOT: Repeated = Repeated::new();

/// Time after which a node that cannot boot asks again.
const AGAIN_S: u32 = 10;

/// Reads a MAC address, `52:54:00:12:34:56` or with `-`.
#[must_use]
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let parts: Vec<&str> = text.split([':', '-']).collect();
    let bytes = parts.iter().map(|part| match part.len() {
        2 if part.bytes().all(|byte| byte.is_ascii_hexdigit()) => u8::from_str_radix(part, 16).ok(),
        _ => None,
    });
    bytes.collect::<Option<Vec<u8>>>()?.try_into().ok()
}

/// A MAC address, as text.
#[must_use]
pub fn mac_text(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

/// Address in a URL.
fn in_url(address: IpAddr) -> String {
    match address {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => format!("[{address}]"),
    }
}

impl Metaserver {
    /// Addresses that nodes boot from and mount: the service addresses, or those of the metaservers where there are none.
    #[must_use]
    pub fn boot_addresses(&self) -> Vec<IpAddr> {
        let map = self.cluster.map();
        if !map.head.service_addresses.is_empty() {
            return map.head.service_addresses.clone();
        }
        let metaservers = map.nodes.iter().filter(|node| matches!(node.key, NodeKey::Metaserver(_)));
        let mut addresses: Vec<IpAddr> = metaservers
            .filter_map(|node| node.address.parse::<std::net::SocketAddr>().ok())
            .map(|address| address.ip())
            .filter(|address| !address.is_unspecified())
            .collect();
        addresses.dedup();
        addresses
    }

    /// Script for any machine: it asks each address for the script of its MAC address.
    #[must_use]
    pub fn boot_start(&self) -> String {
        let port = self.cluster.settings().boot_http_port;
        let mut script = String::from("#!ipxe\n:again\n");
        for address in self.boot_addresses() {
            script += &format!(
                "chain --replace --autofree http://{}:{port}/boot/node/${{netX/mac:hexhyp}} ||\n",
                in_url(address)
            );
        }
        script + &format!("echo Heorot: no metaserver answers\nsleep {AGAIN_S}\ngoto again\n")
    }

    /// Script for the node with this MAC address, as the last change before the call says. A machine that boots nothing
    /// gets a script that says why, and asks again.
    ///
    /// # Errors
    /// If the group has no quorum; the errors of the making of the node's own volume.
    pub async fn boot_script(&self, mac: [u8; 6]) -> Result<String, FileError> {
        self.machine.read_barrier().await?;
        let why = match self.node_of(mac)? {
            Found::Node(node, group) => match self.boots(&node, &group).await? {
                Ok(script) => return Ok(script),
                Err(why) => why,
            },
            Found::Nothing => format!(
                "this machine is in no list: heorot boot node add NAME {} --group GROUP",
                mac_text(mac)
            ),
        };
        if let Some(count) = NOTHING_TO_BOOT.count() {
            tracing::info!(mac = mac_text(mac), count, "a machine asks what to boot: {why}");
        }
        let addresses = self.boot_addresses();
        let port = self.cluster.settings().boot_http_port;
        let again = addresses.first().map_or_else(
            || "reboot".into(),
            |address| {
                format!("chain --replace --autofree http://{}:{port}/boot/start || reboot", in_url(*address))
            },
        );
        Ok(format!("#!ipxe\necho Heorot: {why}\nsleep {AGAIN_S}\n{again}\n"))
    }

    fn node_of(&self, mac: [u8; 6]) -> Result<Found, FileError> {
        let view = self.machine.view()?;
        let Some(node) = read::boot_node_of_mac(&*view, mac)? else { return Ok(Found::Nothing) };
        Ok(match read::boot_group(&*view, &node.group)? {
            Some(group) => Found::Node(node, group),
            None => Found::Nothing,
        })
    }

    /// Script of a node; or why it boots nothing.
    async fn boots(&self, node: &BootNode, group: &BootGroup) -> Result<Result<String, String>, FileError> {
        let name = &node.name;
        let Some(image) = image_of(node, group) else {
            return Ok(Err(format!("{name} has no image: heorot boot assign {} IMAGE@VERSION", group.name)));
        };
        let (image, root, volume) = {
            let view = self.machine.view()?;
            let Some(image) = self.image_name(&*view, image)? else {
                return Ok(Err(format!(
                    "the image of {name} was removed: heorot boot assign {name} IMAGE@VERSION"
                )));
            };
            let root = root_of(group, &image);
            let Some(volume) = self.boot_root(&*view, group, &image)? else {
                return Ok(Err(format!("{root}, the root of {name}, was removed")));
            };
            (image, root, volume)
        };
        if matches!(group.root, BootRoot::Own { .. }) {
            self.make_own_volume(name).await?;
        }
        let addresses = self.boot_addresses();
        let words = words(node, group, &root, &addresses);
        let port = self.cluster.settings().boot_http_port;
        tracing::info!(node = name, image = image.shown(), root, "a node boots");
        let mut script = format!("#!ipxe\necho Heorot: {name} boots {}\n:again\n", image.shown());
        for (number, address) in addresses.iter().enumerate() {
            let files = format!("http://{}:{port}/boot/root/{}", in_url(*address), volume.0);
            script += &format!(
                "imgfree\nkernel --name vmlinuz {files}/kernel initrd=initrd.img {words} || goto next{number}\n\
                 initrd --name initrd.img {files}/initrd || goto next{number}\nboot || goto next{number}\n:next{number}\n"
            );
        }
        script += &format!("echo Heorot: no metaserver answers\nsleep {AGAIN_S}\ngoto again\n");
        Ok(Ok(script))
    }
}

enum Found {
    Node(BootNode, BootGroup),
    Nothing,
}

/// Words of the kernel's command line, for `boot/initramfs-tools` and `boot/dracut`.
fn words(node: &BootNode, group: &BootGroup, root: &str, addresses: &[IpAddr]) -> String {
    // The initramfs reads no others; where there are none it says so.
    let has_v4 = addresses.iter().any(IpAddr::is_ipv4);
    let usable = addresses.iter().filter(|address| address.is_ipv4() || !has_v4);
    let hosts: Vec<String> = usable.map(|address| in_url(*address)).collect();
    let kind = match &group.root {
        BootRoot::Shared { memory_mib } => format!("heorot.overlay={memory_mib}m"),
        BootRoot::Group => "heorot.write".into(),
        BootRoot::Own { directories } => {
            format!("heorot.own={} heorot.own_dirs={}", own_volume(&node.name), directories.join(","))
        }
    };
    let words = format!(
        "boot=heorot root=heorot heorot.root={}:{root} {kind} heorot.node={} ip=dhcp {}",
        hosts.join(","),
        node.name,
        group.words
    );
    words.trim_end().into()
}

#[cfg(test)]
mod tests {
    use namespace::Assigned;

    use super::*;

    #[test]
    fn a_mac_address_is_read_with_both_signs() {
        assert_eq!(parse_mac("52:54:00:aB:34:56"), Some([0x52, 0x54, 0, 0xab, 0x34, 0x56]));
        assert_eq!(parse_mac("52-54-00-ab-34-56"), Some([0x52, 0x54, 0, 0xab, 0x34, 0x56]));
        for wrong in
            ["", "52:54:00:ab:34", "52:54:00:ab:34:56:78", "52:54:00:ab:34:+5", "5:54:00:ab:34:56", "x"]
        {
            assert_eq!(parse_mac(wrong), None, "{wrong:?}");
        }
        assert_eq!(mac_text([0x52, 0x54, 0, 0xab, 0x34, 0x56]), "52:54:00:ab:34:56");
    }

    #[test]
    fn the_words_name_the_root_of_each_kind() {
        let node =
            BootNode { name: "oak".into(), mac: [2; 6], group: "blue".into(), assigned: Assigned::default() };
        let of = |root, more: &str| {
            let group =
                BootGroup { name: "blue".into(), root, words: more.into(), assigned: Assigned::default() };
            words(
                &node,
                &group,
                "/r",
                &[[10, 0, 0, 1].into(), [0xfd00, 0, 0, 0, 0, 0, 0, 1].into(), [10, 0, 0, 2].into()],
            )
        };
        let begin = "boot=heorot root=heorot heorot.root=10.0.0.1,10.0.0.2:/r";
        assert_eq!(
            of(BootRoot::Shared { memory_mib: 512 }, ""),
            format!("{begin} heorot.overlay=512m heorot.node=oak ip=dhcp")
        );
        assert_eq!(
            of(BootRoot::Group, "quiet"),
            format!("{begin} heorot.write heorot.node=oak ip=dhcp quiet")
        );
        let own = BootRoot::Own { directories: vec!["/etc".into(), "/srv".into()] };
        assert_eq!(
            of(own, ""),
            format!("{begin} heorot.own=/boot/nodes/oak heorot.own_dirs=/etc,/srv heorot.node=oak ip=dhcp")
        );
    }
}
