package servertls_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"os"
	"testing"

	"github.com/nearcall/nearcall/client"
	"github.com/nearcall/nearcall/client/clienttls"
	"github.com/nearcall/nearcall/server"
	"github.com/nearcall/nearcall/server/servertls"
	"github.com/nearcall/nearcall/tests/programs/demo"
)

// BenchmarkCall is a call of one caller at a time, with 64 bytes there and back, beside the
// least that can be had: programs that only write to such a connection and read from it.
func BenchmarkCall(b *testing.B) {
	p := newPlace(b)
	certificates := newCertificates(b, servertls.Files{Certificate: p.path("server.pem"), Key: p.path("server.key")})
	s, err := server.New(certificates.Option())
	must(b, err)
	demo.Register(s)
	for _, network := range []string{"tcp", "tls"} {
		address := serveAt(b, s, network+":127.0.0.1:0")
		b.Run("nearcall over "+network, func(b *testing.B) {
			c := newClient(b, address, clienttls.With(p.shows("")))
			request, reply := make([]byte, 64), make([]byte, 0, 64)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.CallRaw(context.Background(), "echo", request, reply); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run("bare "+network, func(b *testing.B) {
			conn := bareEcho(b, p, network)
			message := make([]byte, 96) // as many bytes as frames have
			b.ReportAllocs()
			for b.Loop() {
				_, err := conn.Write(message)
				if err == nil {
					_, err = io.ReadFull(conn, message)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	c := newClient(b, serveAt(b, s, "tcp:127.0.0.1:0"), client.WithSilence(1e9))
	b.Run("nearcall over tcp, with silence", func(b *testing.B) {
		request, reply := make([]byte, 64), make([]byte, 0, 64)
		b.ReportAllocs()
		for b.Loop() {
			if _, err := c.CallRaw(context.Background(), "echo", request, reply); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// bareEcho returns a connection to something that sends back what it reads.
func bareEcho(b *testing.B, p place, network string) net.Conn {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(b, err)
	b.Cleanup(func() { listener.Close() })
	pair, err := tls.LoadX509KeyPair(p.path("server.pem"), p.path("server.key"))
	must(b, err)
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		if network == "tls" {
			conn = tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS13})
		}
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			if _, err := conn.Write(buffer[:n]); err != nil {
				return
			}
		}
	}()
	conn, err := net.Dial("tcp", listener.Addr().String())
	must(b, err)
	b.Cleanup(func() { conn.Close() })
	if network == "tcp" {
		return conn
	}
	text, err := os.ReadFile(p.path("ca.pem"))
	must(b, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(text)
	return tls.Client(conn, &tls.Config{RootCAs: pool, ServerName: "localhost", MinVersion: tls.VersionTLS13})
}
