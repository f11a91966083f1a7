//! What any gRPC tool may ask a manager: whether it serves, and what.

use crate::cluster::{Cluster, config};
use tokio_stream::StreamExt;
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::health_check_response::ServingStatus;
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};
use tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient;
use tonic_reflection::pb::v1::server_reflection_request::MessageRequest;
use tonic_reflection::pb::v1::server_reflection_response::MessageResponse;
use tonic_reflection::pb::v1::{ServerReflectionRequest, ServiceResponse};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

async fn channel(cluster: &Cluster) -> Channel {
    let address = format!("http://{}", cluster.address());
    Endpoint::from_shared(address).unwrap().connect().await.unwrap()
}

#[test]
fn it_says_that_it_serves() {
    let cluster = Cluster::start(0, 0, config());
    runtime().block_on(async {
        let mut client = HealthClient::new(channel(&cluster).await);
        for service in ["", "quincunx.control.v1.Control"] {
            let request = HealthCheckRequest { service: service.into() };
            let answer = client.check(request).await.unwrap().into_inner();
            assert_eq!(answer.status(), ServingStatus::Serving, "{service}");
        }
        let unknown = client.check(HealthCheckRequest { service: "other".into() }).await.unwrap_err();
        assert_eq!(unknown.code(), tonic::Code::NotFound);
    });
}

#[test]
fn it_says_what_it_serves_and_what_its_messages_are() {
    let cluster = Cluster::start(0, 0, config());
    runtime().block_on(async {
        let mut client = ServerReflectionClient::new(channel(&cluster).await);
        let ask = |wanted| ServerReflectionRequest { host: String::new(), message_request: Some(wanted) };
        let requests = tokio_stream::iter([
            ask(MessageRequest::ListServices(String::new())),
            ask(MessageRequest::FileContainingSymbol("quincunx.control.v1.InitGroupRequest".into())),
        ]);
        let mut answers = client.server_reflection_info(requests).await.unwrap().into_inner();
        let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::ListServicesResponse(list) = answer else { panic!("{answer:?}") };
        let serves = |name: &str| list.service.contains(&ServiceResponse { name: name.into() });
        assert!(serves("quincunx.control.v1.Control") && serves("grpc.health.v1.Health"), "{list:?}");
        let answer = answers.next().await.unwrap().unwrap().message_response.unwrap();
        let MessageResponse::FileDescriptorResponse(files) = answer else { panic!("{answer:?}") };
        assert!(!files.file_descriptor_proto.is_empty());
    });
}
