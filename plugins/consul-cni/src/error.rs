//! Errors of the plugin, except those of single values.

use cni_core::error::{Code, Failure};

/// Errors of the plugin.
#[derive(Debug, thiserror::Error)]
pub enum ConsulError {
    /// The argument is missing.
    #[error("not running in a pod, namespace and pod should have values")]
    NoArgument,
    /// Kubernetes says it in annotations of the pod, which only its API server knows.
    #[error("pod {namespace}/{pod}: Kubernetes annotations are not supported")]
    Kubernetes { namespace: String, pod: String },
    /// The plugins before have assigned no address.
    #[error("got no container IPs")]
    NoAddress,
    /// CHECK without the result of ADD.
    #[error("Required prevResult missing")]
    NoPrevResult,
}

impl Failure for ConsulError {
    fn code(&self) -> Code {
        match self {
            Self::NoArgument => Code::InvalidEnvironment,
            Self::Kubernetes { .. } => Code::UnsupportedField,
            Self::NoAddress | Self::NoPrevResult => Code::InvalidConfig,
        }
    }

    fn details(&self) -> String {
        match self {
            Self::NoArgument => {
                "CONSUL_IPTABLES_CONFIG in CNI_ARGS says what is redirected; Nomad (1.8 and later) sends \
                                 it for groups with a transparent_proxy block"
                    .to_owned()
            }
            Self::Kubernetes { .. } => {
                "use HashiCorp's consul-cni of consul-k8s there, or let its init container set the \
                                        redirection up (connectInject.cni.enabled=false)"
                    .to_owned()
            }
            Self::NoAddress | Self::NoPrevResult => {
                "chain consul-cni behind the plugin that assigns addresses".to_owned()
            }
        }
    }
}
