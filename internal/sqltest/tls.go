package sqltest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// TLS makes the server speak TLS to clients who ask for it, with a certificate for
// 127.0.0.1 and localhost that CertFile has, and that nobody else trusts.
func TLS() Option { return func(s *Server) { s.tls = true } }

// CertFile returns the file of the certificate of a server with the option TLS, which is
// its own authority.
func (s *Server) CertFile() string { return filepath.Join(s.folder.path, "server.crt") }

func (s *Server) keyFile() string { return filepath.Join(s.folder.path, "server.key") }

// writeCertificate makes the certificate and its key.
func (s *Server) writeCertificate() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return fmt.Errorf("sqltest: %w", err)
	}
	cert := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "Lockkeeper test server"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		BasicConstraintsValid: true,
		IsCA:                  true,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		DNSNames:              []string{"localhost"},
	}
	certDER, err1 := x509.CreateCertificate(rand.Reader, cert, cert, &key.PublicKey, key)
	keyDER, err2 := x509.MarshalPKCS8PrivateKey(key)
	if err := errors.Join(err1, err2); err != nil {
		return fmt.Errorf("sqltest: %w", err)
	}
	return errors.Join(
		os.WriteFile(s.CertFile(), pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER}), 0o600),
		os.WriteFile(s.keyFile(), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER}), 0o600),
	)
}
