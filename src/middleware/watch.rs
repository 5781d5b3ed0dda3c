//! What the response to a request that passes is looked at for.

use http::Response;

use super::invalid::InvalidSample;
use super::list::AdmittedList;
use super::request::AdmittedRequest;
use crate::store::Answer;

/// What a response is looked at for.
pub(super) enum Watch {
    /// What it says of a record.
    Record(AdmittedRequest),
    /// What it says of the records of a list.
    List(AdmittedList),
    /// Whether an id is invalid indeed.
    Invalid(InvalidSample),
}

impl Watch {
    /// Learns from the response; returns what has to be waited for before it is handed on.
    pub(super) fn conclude<B>(&mut self, response: &Response<B>) -> Option<Answer<()>> {
        match self {
            Self::Record(request) => request.conclude(response),
            Self::List(list) => {
                list.conclude(response);
                None
            }
            Self::Invalid(sample) => {
                sample.conclude(response);
                None
            }
        }
    }
}

impl From<AdmittedRequest> for Watch {
    fn from(request: AdmittedRequest) -> Self {
        Self::Record(request)
    }
}

impl From<AdmittedList> for Watch {
    fn from(list: AdmittedList) -> Self {
        Self::List(list)
    }
}
