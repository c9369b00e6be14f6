// Package seal keeps secrets unreadable at rest.
//
// A sealed value carries everything but the key service's key: a version, the
// data key it was encrypted with (wrapped by the key service, a
// gocloud.dev/secrets keeper) and the ciphertext. The data key is made once per
// process and unwrapped once per process, so that a key service in a cloud is
// asked twice a start and not twice a secret. Several master keys can be in use:
// one seals, all open, and a process that runs notices when another one is to
// seal. That is what a rotation of the key takes.
//
// The context a value is sealed in, such as "cluster/12/root_password", is
// authenticated with it: whoever can write to the store can't move one row's
// secret to another.
//
// What customers give into our care is sealed by a Key of their account, which is
// sealed like any other secret.
package seal
