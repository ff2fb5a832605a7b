use clap::CommandFactory;

use super::*;

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
    let parse = |line: &str| Cli::try_parse_from(line.split(' '));
    assert!(parse("heorot up --data-servers 2 --listen 10.0.0.1").is_ok());
    assert!(parse("heorot up --data-servers 0").is_err());
    assert!(parse("heorot init --role mds,ds --service-address 10.0.0.100,10.0.0.101").is_ok());
    assert!(parse("heorot join 10.0.0.1 --token-file - --role ds --target /a --target /b").is_ok());
    assert!(parse("heorot join heorot2-00 10.0.0.1").is_err(), "a token in sight of all");
    assert!(parse("heorot init --role metaserver").is_err());
    for command in ["init", "join 10.0.0.1"] {
        let of = |address: &str| parse(&format!("heorot {command} --data-service-address {address}"));
        assert!(of("10.0.0.105").is_ok() && of("fir").is_err() && of("10.0.0.105,10.0.0.106").is_err());
    }
    assert!(
        parse("heorot token --valid 7d").is_ok()
            && parse("heorot token list").is_ok()
            && parse("heorot token --valid 7").is_err()
    );
    assert!(parse("heorot stripe set / --unit 1MiB --columns 4").is_ok());
    assert!(parse("heorot stripe set /").is_err(), "sets nothing");
    assert!(parse("heorot stripe set / --inherit --columns 4").is_err());
    assert!(parse("heorot stripe set / --unit 1mb").is_err());
    assert!(parse("heorot export add /scratch --network 10.0.0.0/8 --rw --squash root").is_ok());
    assert!(parse("heorot export add /scratch").is_err(), "to no network");
    assert!(parse("heorot export set / --ro --rw").is_err() && parse("heorot export set /").is_err());
    assert!(parse("heorot set lease 20s").is_ok() && parse("heorot set lease --default").is_ok());
    assert!(parse("heorot set lease").is_err() && parse("heorot set lease 20s --default").is_err());
    assert!(
        parse("heorot bench io500 --time 300s").is_ok() && parse("heorot model --help").is_ok(),
        "not checked here"
    );
    assert!(parse("heorot init --name a/b").is_err() && parse("heorot init --name ash").is_ok());
}
