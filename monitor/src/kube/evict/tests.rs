use super::*;

fn request(grace: u64) -> Request {
    Request {
        action: 7,
        namespace: "shop".into(),
        name: "web".into(),
        uid: "u1".into(),
        members: Vec::new(),
        grace: Nanos(grace),
        deletion: Deletion::Never,
        message: String::new(),
        deadline: Nanos(0),
        reply: mpsc::channel(1).0,
    }
}

#[test]
fn body_exactly() {
    #[rustfmt::skip]
    let table = [
        // grace in nanoseconds, seconds
        (0,                 1), // 0 would be a forced deletion
        (1,                 1),
        (1_000_000_000,     1),
        (30_500_000_000,   31),
    ];
    for (grace, want) in table {
        let got = serde_json::to_value(body(&request(grace))).unwrap();
        let want = serde_json::json!({
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": "web", "namespace": "shop"},
            "deleteOptions": {
                "gracePeriodSeconds": want,
                "preconditions": {"uid": "u1"},
            },
        });
        assert_eq!(got, want, "{grace} ns");
    }
}

#[test]
fn verdict_by_code() {
    use Verdict::*;
    #[rustfmt::skip]
    let table = [
        // code, message, verdict
        (Some(404), "pods \"web\" not found",                               Gone),
        (Some(404), "the server could not find the requested resource",     NoEviction),
        (Some(404), "404 page not found",                                   NoEviction),
        (Some(400), "Eviction in version \"v1\" cannot be handled as a Eviction: no kind \"Eviction\" is registered for version \"policy/v1\" in scheme \"k8s.io/kubernetes/pkg/api/legacyscheme/scheme.go:30\"", NoEviction),
        (Some(400), "name in URL does not match name in Eviction object",  Refused),
        (Some(405), "the server does not allow this method on the requested resource", NoEviction),
        (Some(429), "Cannot evict pod as it would violate the pod's disruption budget.", OverBudget),
        (Some(429), "Cannot evict pod as it would violate the pod's disruption budget. The disruption budget web is still being processed by the server.", Uncounted),
        (Some(429), "the server has received too many requests",            Busy),
        (Some(500), "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.", OverBudget),
        (Some(500), "etcd is away",                                          Away),
        (Some(503), "",                                                      Away),
        (None,      "connection refused",                                    Away),
        (Some(401), "Unauthorized",                                          Refused),
        (Some(403), "pods \"web\" is forbidden: User \"x\" cannot create resource \"pods/eviction\" in API group \"\"", NoEviction),
        (Some(403), "admission webhook \"drain.example.com\" denied the request", Protected),
        (Some(403), "poddisruptionbudget.policy \"web\" is forbidden: pdb disruptions allowed is negative", OverBudget),
        (Some(403), "the API server answered 403: poddisruptionbudget.policy \"web\" is forbidden: pdb disruptions allowed is negative", OverBudget),
        (Some(403), "the API server answered 403: pods \"poddisruptionbudget.policy\" is forbidden: no", Refused),
        // A webhook names the code.
        (Some(400), "the API server answered 400: admission webhook \"drain.example.com\" denied the request: not now", Protected),
        (Some(422), "the API server answered 422: admission webhook \"drain.example.com\" denied the request: not now", Protected),
        (Some(429), "the API server answered 429: admission webhook \"drain.example.com\" denied the request: its disruption budget", Protected),
        (Some(500), "the API server answered 500: admission webhook \"drain.example.com\" denied the request without explanation", Protected),
        (Some(500), "the API server answered 500: Internal error occurred: failed calling webhook \"drain.example.com\": failed to call webhook: context deadline exceeded", Away),
        (Some(500), "the API server answered 500: Internal error occurred: failed calling webhook \"drain.example.com\": admission webhook \"b\" denied the request", Away),
        (Some(422), "the API server answered 422: pods \"web\" is forbidden: ValidatingAdmissionPolicy 'databases' with binding 'databases' denied request: not now", Protected),
        (Some(403), "the API server answered 403: pods \"web\" is forbidden: ValidatingAdmissionPolicy 'databases' with binding 'databases' denied request: not now", Protected),
        // isobar's own.
        (Some(403), "the API server answered 403: pods \"web\" is forbidden: ValidatingAdmissionPolicy 'isobar-evictions' with binding 'isobar-evictions' denied request: isobar evicts a pod by its uid, and with a grace period", Refused),
        (Some(403), "the API server answered 403: pods \"web\" is forbidden: ValidatingAdmissionPolicy 'isobar-deletions' with binding 'isobar-deletions' denied request: isobar deletes only pods of its own node", Refused),
        (Some(403), "pods \"web\" is forbidden: User \"x\" cannot delete resource \"pods\" in API group \"\"", Refused),
        (Some(409), "Operation cannot be fulfilled on pods \"web\": the UID in the precondition (u1) does not match the UID in record (u2). The object might have been deleted and then recreated", Replaced),
        (Some(409), "Precondition failed: UID in precondition: u1, UID in object meta: u2", Replaced),
        (Some(409), "the object has been modified",                          Refused),
        (Some(422), "",                                                      Refused),
    ];
    for (code, words, want) in table {
        let why = Failure { code, words: words.into(), ..Failure::default() };
        assert_eq!(verdict(&why, "web"), want, "{code:?} {words}");
    }
}

#[test]
fn verdict_is_mended_as_configured() {
    use Verdict::*;
    let mended = |deletion| {
        let all =
            [Away, Busy, Gone, NoEviction, OverBudget, Protected, Refused, Replaced, Uncounted];
        all.into_iter().filter(|one| one.is_mended_by(deletion)).collect::<Vec<_>>()
    };
    assert_eq!(mended(Deletion::Never), []);
    assert_eq!(mended(Deletion::NoEviction), [NoEviction]);
    assert_eq!(mended(Deletion::OverBudgets), [NoEviction, OverBudget]);
}
