//! What the kubelet would set aside, allow and write, computed as it does.
