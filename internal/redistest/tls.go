package redistest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// certificates makes an authority and a server certificate in dir. It returns the
// arguments that give them to redis-server, and what a client needs to trust them.
func certificates(tb testing.TB, dir string) ([]string, *tls.Config) {
	tb.Helper()
	ca := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "Lockkeeper test authority"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageCertSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
	}
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "Lockkeeper test server"},
		NotBefore:    ca.NotBefore,
		NotAfter:     ca.NotAfter,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:     []string{"localhost"},
	}
	caKey, serverKey := newKey(tb), newKey(tb)
	caDER := sign(tb, ca, ca, caKey, caKey)
	serverDER := sign(tb, server, ca, serverKey, caKey)
	keyDER, err := x509.MarshalPKCS8PrivateKey(serverKey)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}

	pool := x509.NewCertPool()
	root, err := x509.ParseCertificate(caDER)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	pool.AddCert(root)
	return []string{
		"--tls-ca-cert-file", writePEM(tb, dir, "ca.crt", "CERTIFICATE", caDER),
		"--tls-cert-file", writePEM(tb, dir, "server.crt", "CERTIFICATE", serverDER),
		"--tls-key-file", writePEM(tb, dir, "server.key", "PRIVATE KEY", keyDER),
		"--tls-auth-clients", "no",
	}, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS12}
}

func newKey(tb testing.TB) *ecdsa.PrivateKey {
	tb.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return key
}

func sign(tb testing.TB, cert, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) []byte {
	tb.Helper()
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, &key.PublicKey, parentKey)
	if err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return der
}

func writePEM(tb testing.TB, dir, name, kind string, der []byte) string {
	tb.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		tb.Fatalf("redistest: %v", err)
	}
	return path
}
