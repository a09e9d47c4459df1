package services

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"
)

// subscribeControl answers what the command nats and others ask about services: of all services,
// of those with this name, and of this instance.
func (s *Service) subscribeControl() error {
	for verb, document := range map[micro.Verb]func() any{micro.PingVerb: s.ping, micro.InfoVerb: s.info, micro.StatsVerb: s.stats} {
		for _, of := range [][2]string{{"", ""}, {s.config.Name, ""}, {s.config.Name, s.id}} {
			subject, err := micro.ControlSubject(verb, of[0], of[1])
			if err != nil {
				return err
			}
			subscription, err := s.config.Connection.Subscribe(subject, func(m *nats.Msg) { s.tell(m, document()) })
			if err != nil {
				return err
			}
			s.closes(subscription)
			s.control = append(s.control, subscription)
		}
	}
	return nil
}

// tell answers with a document. An engine that is gone has no use for the answer, so its error does
// not matter.
func (s *Service) tell(m *nats.Msg, document any) {
	if !mayAnswer(s.config.Prefix, m.Reply) {
		return
	}
	text, err := json.Marshal(document)
	if most := s.config.Connection.MaxPayload(); err == nil && int64(len(text)) > most {
		err = fmt.Errorf("the document has %d bytes; this engine takes %d (max_payload)", len(text), most)
	}
	if err == nil {
		_ = m.Respond(text)
		return
	}
	answer := nats.NewMsg("")
	answer.Header.Set(micro.ErrorHeader, oneLine(err.Error()))
	answer.Header.Set(micro.ErrorCodeHeader, "500")
	_ = m.RespondMsg(answer)
}

func (s *Service) identity() micro.ServiceIdentity {
	return micro.ServiceIdentity{Name: s.config.Name, ID: s.id, Version: s.config.Version, Metadata: s.config.Metadata}
}

func (s *Service) ping() any {
	return micro.Ping{ServiceIdentity: s.identity(), Type: micro.PingResponseType}
}

func (s *Service) info() any {
	info := micro.Info{ServiceIdentity: s.identity(), Type: micro.InfoResponseType, Endpoints: []micro.EndpointInfo{},
		Description: fmt.Sprintf("functions of the Nearcall server %s: send a JSON array of the arguments", s.config.Name)}
	for _, e := range s.endpoints {
		info.Endpoints = append(info.Endpoints, micro.EndpointInfo{Name: e.name, Subject: e.subject, QueueGroup: queueGroup, Metadata: e.metadata()})
	}
	return info
}

// metadata are what callers want to know of a function.
func (e *endpoint) metadata() map[string]string {
	return map[string]string{
		"function":    e.function.Name,
		"signature":   signature(e.function),
		"description": firstSentence(e.function.Doc),
		"hash":        e.function.Hash,
	}
}

func firstSentence(doc string) string {
	line, _, _ := strings.Cut(doc, "\n")
	if at := strings.Index(line, ". "); at >= 0 {
		line = line[:at+1]
	}
	return line
}

func (s *Service) stats() any { return s.Statistics() }

// Statistics returns what the service has done, as micro tells it.
func (s *Service) Statistics() micro.Stats {
	stats := micro.Stats{ServiceIdentity: s.identity(), Type: micro.StatsResponseType, Started: s.started, Endpoints: []*micro.EndpointStats{}}
	for _, e := range s.endpoints {
		one := &micro.EndpointStats{Name: e.name, Subject: e.subject, QueueGroup: queueGroup}
		e.counts.statistics(one)
		stats.Endpoints = append(stats.Endpoints, one)
	}
	return stats
}
