// Package seal keeps secrets unreadable at rest.
//
// A sealed value carries everything but the key service's key: a version, the
// data key it was encrypted with (wrapped by the key service, a
// gocloud.dev/secrets keeper) and the ciphertext. The data key is made once per
// process and unwrapped once per process, so that a key service in a cloud is
// asked twice a start and not twice a secret; another key service or a new data
// key can be introduced beside values that older ones sealed.
//
// The context a value is sealed in, such as "cluster/12/root_password", is
// authenticated with it: whoever can write to the store can't move one row's
// secret to another.
//
// What customers give into our care is sealed by a Key of their account, which is
// sealed like any other secret.
package seal
