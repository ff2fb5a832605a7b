//! Configuration of dnsmasq, which answers DHCP for nodes that boot.

use std::net::IpAddr;

use command_line::Failure;

use crate::admin::api::Boot;

/// Loader of firmware of PCs before UEFI, and of UEFI on x86-64 and on ARM.
const LOADERS: [(&str, &str); 3] =
    [("bios", "undionly.kpxe"), ("efi", "ipxe.efi"), ("arm", "ipxe-arm64.efi")];

/// The configuration: the nodes, and where they find what. Addresses of the network are the operator's.
pub(super) fn configuration(boot: &Boot) -> Result<String, Failure> {
    let Some(IpAddr::V4(first)) = boot.addresses.iter().find(|address| address.is_ipv4()) else {
        return Err(Failure::new(
            "there is no address that nodes could boot from: add one that moves to a metaserver that lives, by heorot \
             service-address add ADDRESS",
        ));
    };
    if boot.http_port == 0 {
        return Err(Failure::new("no metaserver answers machines that boot: heorot set boot_http_port 80"));
    }
    let http = format!("http://{first}:{}", boot.http_port);
    let mut out = String::from(
        "# DHCP for nodes that boot from Heorot, printed by heorot boot dnsmasq; print it again when nodes change.\n\
         # Add the network, such as: dhcp-range=10.0.0.0,static\n\
         # With addresses of your own for the nodes, write them behind the names: dhcp-host=...,oak,10.0.1.1\n\n\
         # iPXE, whatever loaded it: its script, by HTTP.\n\
         dhcp-match=set:ipxe,175\n",
    );
    out += &format!("dhcp-boot=tag:ipxe,{http}/boot/start\n\n");
    out += "# Firmware that loads by HTTP (UEFI).\n\
            dhcp-match=set:efi-http,option:client-arch,16\n\
            dhcp-match=set:arm-http,option:client-arch,19\n\
            dhcp-option-force=tag:efi-http,60,HTTPClient\n\
            dhcp-option-force=tag:arm-http,60,HTTPClient\n";
    out += &format!("dhcp-boot=tag:!ipxe,tag:efi-http,{http}/boot/loader/{}\n", LOADERS[1].1);
    out += &format!("dhcp-boot=tag:!ipxe,tag:arm-http,{http}/boot/loader/{}\n", LOADERS[2].1);
    if boot.tftp_port == 69 {
        out += "\n# Firmware that loads by TFTP: iPXE, which then asks again.\n\
                dhcp-match=set:bios,option:client-arch,0\n\
                dhcp-match=set:efi,option:client-arch,7\n\
                dhcp-match=set:efi,option:client-arch,9\n\
                dhcp-match=set:arm,option:client-arch,11\n";
        for (tag, loader) in LOADERS {
            out += &format!("dhcp-boot=tag:!ipxe,tag:{tag},{loader},,{first}\n");
        }
    } else {
        out += "\n# Firmware that loads by TFTP is not answered: heorot set boot_tftp_port 69\n";
    }
    out += "\n# The nodes.\n";
    for node in &boot.nodes {
        out += &format!("dhcp-host={},{}\n", node.mac, node.name);
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::api::BootNode;

    #[test]
    fn nodes_and_the_first_service_address_are_in_the_configuration() {
        let node = BootNode {
            name: "oak".into(),
            mac: "52:54:00:00:00:01".into(),
            group: "blue".into(),
            image: None,
            previous: None,
        };
        let mut boot = Boot {
            images: vec![],
            groups: vec![],
            nodes: vec![node],
            addresses: vec!["fd00::1".parse().unwrap(), "10.0.0.100".parse().unwrap()],
            http_port: 80,
            tftp_port: 69,
        };
        let text = configuration(&boot).unwrap();
        for line in [
            "dhcp-boot=tag:ipxe,http://10.0.0.100:80/boot/start",
            "dhcp-boot=tag:!ipxe,tag:bios,undionly.kpxe,,10.0.0.100",
            "dhcp-boot=tag:!ipxe,tag:efi-http,http://10.0.0.100:80/boot/loader/ipxe.efi",
            "dhcp-host=52:54:00:00:00:01,oak",
        ] {
            assert!(text.lines().any(|found| found == line), "{line}: {text}");
        }
        boot.tftp_port = 0;
        assert!(configuration(&boot).unwrap().contains("heorot set boot_tftp_port 69"));
        boot.http_port = 0;
        assert!(configuration(&boot).unwrap_err().to_string().contains("heorot set boot_http_port 80"));
        boot.addresses.clear();
        assert!(configuration(&boot).unwrap_err().to_string().contains("service-address add"));
    }
}
