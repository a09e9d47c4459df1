package tls

import (
	cryptotls "crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/nearcall/nearcall/internal/address"
	"github.com/nearcall/nearcall/internal/wire"
)

// Files are the paths of a caller's PEM files. An empty Authorities stands for the
// authorities of the system, an empty Certificate for none.
type Files struct {
	Authorities, Certificate, Key, ServerName string
}

// callingLook is how often the files are looked at.
const callingLook = wire.CertificateLookMs * time.Millisecond

// A callingFiles makes configurations of files, and makes them anew when the files have
// changed.
type callingFiles struct {
	files Files

	// mu protects what follows.
	mu     sync.Mutex
	loaded map[Files]*loadedFiles
}

// A loadedFiles is what was made of files when they had these stamps.
type loadedFiles struct {
	config *cryptotls.Config
	stamps [3]stamp
	seen   time.Time
}

// A stamp tells that a file has changed.
type stamp struct {
	changed time.Time
	bytes   int64
}

// CallingFrom returns the transport for callers with these files. What an address says
// goes before them.
func CallingFrom(files Files) Calling {
	f := &callingFiles{files: files, loaded: map[Files]*loadedFiles{}}
	return Calling{Config: f.config}
}

// CallingWith returns the transport for callers with a configuration; nil stands for an empty
// one. Files that an address names cannot be used with it.
func CallingWith(config *cryptotls.Config) Calling {
	if config == nil {
		config = new(cryptotls.Config)
	}
	completed := CallerConfig(config)
	return Calling{Config: func(a address.Address) (*cryptotls.Config, error) {
		if a.TLS.CA != "" || a.TLS.Cert != "" || a.TLS.Key != "" {
			return nil, fmt.Errorf("the address names files (ca=, cert=, key=), and the program has a configuration of its own (clienttls.WithConfig): remove one of the two")
		}
		return completed, nil
	}}
}

// config returns the configuration for an address. If files have changed and cannot be read
// now, because they are just being written, the former ones are used and the next look
// tries again.
func (f *callingFiles) config(a address.Address) (*cryptotls.Config, error) {
	files := f.files.with(a)
	f.mu.Lock()
	defer f.mu.Unlock()
	known := f.loaded[files]
	if known != nil && time.Since(known.seen) < callingLook {
		return known.config, nil
	}
	stamps := files.stamps()
	if known != nil {
		known.seen = time.Now()
		if known.stamps == stamps {
			return known.config, nil
		}
	}
	config, err := files.load()
	if err != nil {
		if known != nil {
			return known.config, nil
		}
		return nil, err
	}
	f.loaded[files] = &loadedFiles{config: config, stamps: stamps, seen: time.Now()}
	return config, nil
}

// with returns the files with what the address names in place of them.
func (f Files) with(a address.Address) Files {
	if a.TLS.CA != "" {
		f.Authorities = a.TLS.CA
	}
	if a.TLS.Cert != "" {
		f.Certificate, f.Key = a.TLS.Cert, a.TLS.Key
	}
	return f
}

func (f Files) stamps() (stamps [3]stamp) {
	for i, path := range []string{f.Authorities, f.Certificate, f.Key} {
		if path == "" {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			stamps[i] = stamp{info.ModTime(), info.Size()}
		}
	}
	return stamps
}

func (f Files) load() (*cryptotls.Config, error) {
	config := &cryptotls.Config{ServerName: f.ServerName}
	if f.Authorities != "" {
		pool, _, err := readAuthorities(f.Authorities)
		if err != nil {
			return nil, err
		}
		config.RootCAs = pool
	}
	if f.Certificate != "" {
		own, err := readPair(f.Certificate, f.Key)
		if err != nil {
			return nil, err
		}
		// Whatever authorities the server names: its refusal then says what is wrong.
		config.GetClientCertificate = func(*cryptotls.CertificateRequestInfo) (*cryptotls.Certificate, error) { return own, nil }
	}
	return CallerConfig(config), nil
}

// readPair reads a chain of certificates and its key, which may be in the same file.
func readPair(certificate, key string) (*cryptotls.Certificate, error) {
	if key == "" {
		key = certificate
	}
	pair, err := cryptotls.LoadX509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("the certificate %s with the key %s cannot be used: %w", certificate, key, err)
	}
	return &pair, nil
}

// readAuthorities reads the certificates of authorities.
func readAuthorities(path string) (*x509.CertPool, []*x509.Certificate, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, fmt.Errorf("the authorities cannot be read: %w", err)
	}
	certificates, err := parseCertificates(text)
	if err != nil {
		return nil, nil, fmt.Errorf("the authorities in %s cannot be used: %w", path, err)
	}
	pool := x509.NewCertPool()
	for _, certificate := range certificates {
		pool.AddCert(certificate)
	}
	return pool, certificates, nil
}
