//! Routes of the admin interface for cluster settings: `GET` and `PUT` of `/settings`, `/exports` and
//! `/service-addresses`.

use std::sync::Arc;

use axum::extract::State;
use axum::routing::get;
use axum::{Json, Router};
use cluster::SettingReport;
use host::Network;
use metaserver::ExportChange;

use crate::admin::api::{
    Done, Export, ExportRequest, ServiceAddress, ServiceAddressRequest, Setting, SettingRequest,
};
use crate::admin::http::{Admin, Refused, metaserver, refused};

/// Router of this module.
pub(crate) fn routes() -> Router<Arc<Admin>> {
    Router::new()
        .route("/settings", get(settings).put(set))
        .route("/exports", get(exports).put(change_exports))
        .route("/service-addresses", get(service_addresses).put(change_service_addresses))
}

type Answer<T> = Result<Json<T>, Refused>;

fn shown(setting: SettingReport) -> Setting {
    Setting {
        key: setting.key.into(),
        value: setting.value,
        default: setting.default.into(),
        about: setting.about.into(),
    }
}

async fn settings(State(admin): State<Arc<Admin>>) -> Answer<Vec<Setting>> {
    let settings = metaserver(&admin)?.cluster().settings_report().await.map_err(refused)?;
    Ok(Json(settings.into_iter().map(shown).collect()))
}

async fn set(State(admin): State<Arc<Admin>>, Json(request): Json<SettingRequest>) -> Answer<Setting> {
    let server = metaserver(&admin)?;
    server.cluster().set_setting(&request.key, request.value.as_deref()).await.map_err(refused)?;
    let settings = server.cluster().settings_report().await.map_err(refused)?;
    let setting = settings.into_iter().find(|setting| setting.key == request.key);
    setting.map(|setting| Json(shown(setting))).ok_or_else(|| refused("the setting is gone"))
}

async fn exports(State(admin): State<Arc<Admin>>) -> Answer<Vec<Export>> {
    let exports = metaserver(&admin)?.admission().exports_report().await.map_err(refused)?;
    let shown = |export: metaserver::ExportReport| Export {
        path: export.path,
        network: export.network.to_string(),
        rules: export.rules,
        exported_as: export.exported_as,
        gone: export.gone,
    };
    Ok(Json(exports.into_iter().map(shown).collect()))
}

async fn change_exports(State(admin): State<Arc<Admin>>, Json(request): Json<ExportRequest>) -> Answer<Done> {
    let change = match request.action.as_str() {
        "add" => ExportChange::Add,
        "set" => ExportChange::Set,
        "remove" => ExportChange::Remove,
        other => return Err(refused(format!("there is no action {other:?}; it must be add, set or remove"))),
    };
    let networks: Result<Vec<Network>, _> = request.networks.iter().map(|network| network.parse()).collect();
    let networks = networks.map_err(refused)?;
    let server = metaserver(&admin)?;
    let done = server.admission().change_exports(change, &request.path, &networks, &request.rules).await;
    Ok(Json(Done { done: done.map_err(refused)? }))
}

async fn service_addresses(State(admin): State<Arc<Admin>>) -> Answer<Vec<ServiceAddress>> {
    let all = metaserver(&admin)?.cluster().service_addresses_report().await.map_err(refused)?;
    let shown =
        |(address, holder): (std::net::IpAddr, _)| ServiceAddress { address: address.to_string(), holder };
    Ok(Json(all.into_iter().map(shown).collect()))
}

async fn change_service_addresses(
    State(admin): State<Arc<Admin>>,
    Json(request): Json<ServiceAddressRequest>,
) -> Answer<Done> {
    let is_added = match request.action.as_str() {
        "add" => true,
        "remove" => false,
        other => return Err(refused(format!("there is no action {other:?}; it must be add or remove"))),
    };
    let address =
        request.address.parse().map_err(|_| refused(format!("{:?} is no address", request.address)))?;
    metaserver(&admin)?.cluster().change_service_address(address, is_added).await.map_err(refused)?;
    let done = match is_added {
        true => format!("{address} is a service address; heorot service-address list shows its holder"),
        false => format!("{address} is no service address any more"),
    };
    Ok(Json(Done { done }))
}
