package kubernetes

import (
	"context"
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"steward/internal/cluster"
	"steward/internal/pki"
	"steward/internal/platform"
)

// tlsSecret is the one with the certificate, as it is; nil while there is none.
func (d *Driver) tlsSecret(ctx context.Context, op operator, n names) (*corev1.Secret, error) {
	kept := &corev1.Secret{}
	err := d.live.Get(ctx, n.key(op.tls(n)), kept)
	if isGone(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read the certificate: %w", explained(err))
	}
	return kept, nil
}

// secrets are the objects with a cluster's: what its server is told at its birth only as long as it isn't born. kept has the certificate that there is.
func (d *Driver) secrets(ctx context.Context, made *desired, is view, kept *corev1.Secret, born bool) ([]client.Object, error) {
	k, err := d.keys(ctx, made.id)
	if err != nil {
		return nil, err
	}
	password, err := d.o.Secrets.Secret(ctx, made.id, platform.RootPassword)
	if err != nil {
		return nil, fmt.Errorf("secret %s: %w", platform.RootPassword, err)
	}
	cert, key, err := d.certificate(*made, is, k, kept)
	if err != nil {
		return nil, err
	}
	made.cert = cert
	return made.op.secrets(*made, secretValues{keys: k, root: password, cert: cert, key: key}, born)
}

// certificate is the one that there is, unless it doesn't have the names or has to be renewed.
func (d *Driver) certificate(made desired, is view, k keys, kept *corev1.Secret) (cert, key []byte, err error) {
	names, addresses := []string{made.host(), made.names.reads() + "." + made.namespace + ".svc"}, []netip.Addr(nil)
	for _, host := range []string{address(is.write), address(is.reads)} {
		if ip, err := netip.ParseAddr(host); err == nil {
			addresses = append(addresses, ip)
		} else if host != "" {
			names = append(names, host)
		}
	}
	names = append(names, made.op.names(made.names)...)
	now := d.o.Now()
	if kept != nil {
		cert, key = kept.Data[corev1.TLSCertKey], kept.Data[corev1.TLSPrivateKeyKey]
	}
	if kept == nil || !pki.Covers(k.ca, cert, names, addresses, now) || made.want.Patch && pki.NeedsRenewal(cert, now) {
		if cert, key, err = pki.Issue(k.ca, k.caKey, names, addresses, now); err != nil {
			return nil, nil, err
		}
	}
	d.rememberCertificate(made.id, cert)
	return cert, key, nil
}

func (d *Driver) rememberCertificate(id cluster.ID, cert []byte) {
	m := d.memory(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	m.cert = cert
}

// knownCertificate is the one that the cluster had when it was last written or looked for; nil for none. It is asked about
// all the time.
func (d *Driver) knownCertificate(ctx context.Context, v view) ([]byte, error) {
	m := d.memory(v.id)
	m.mu.Lock()
	cert := m.cert
	m.mu.Unlock()
	if cert != nil {
		return cert, nil
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	var kept corev1.Secret
	if err := unlessGone(d.live.Get(ctx, v.key(v.op.tls(v.names)), &kept)); err != nil {
		return nil, fmt.Errorf("cluster %d: read the certificate: %w", v.id, err)
	}
	d.rememberCertificate(v.id, kept.Data[corev1.TLSCertKey])
	return kept.Data[corev1.TLSCertKey], nil
}

// keys are the secrets that stay the same for a cluster's life.
type keys struct{ admin, ca, caKey []byte }

// keys asks for them once.
func (d *Driver) keys(ctx context.Context, id cluster.ID) (keys, error) {
	m := d.memory(id)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.keys != nil {
		return *m.keys, nil
	}
	var k keys
	for name, into := range map[platform.SecretName]*[]byte{platform.AdminPassword: &k.admin, platform.CACert: &k.ca, platform.CAKey: &k.caKey} {
		value, err := d.o.Secrets.Secret(ctx, id, name)
		if err != nil {
			return k, fmt.Errorf("secret %s: %w", name, err)
		}
		*into = value
	}
	m.keys = &k
	return k, nil
}
