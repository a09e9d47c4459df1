package schema

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
)

// GoFields returns the fields of a Go struct that are sent. The name of a field is its
// tag nearcall, or else its tag json, or else its Go name. Fields with the name "-" and
// unexported fields are left out. Embedded structs are flattened: an outer field hides
// an inner one with the same name.
func GoFields(t reflect.Type) ([]GoField, error) {
	var fields []GoField
	if err := collectFields(t, nil, &fields); err != nil {
		return nil, fmt.Errorf("struct %s: %w", t, err)
	}
	if len(fields) == 0 && t.NumField() > 0 {
		return nil, fmt.Errorf("struct %s has no exported field, so nothing of it would travel", t)
	}
	return visibleFields(t, fields)
}

func collectFields(t reflect.Type, index []int, fields *[]GoField) error {
	for i := range t.NumField() {
		field := t.Field(i)
		name, named := fieldName(field)
		path := append(slices.Clone(index), i)
		switch {
		case name == "":
		case field.Anonymous && !named && field.Type.Kind() == reflect.Pointer:
			return fmt.Errorf("embedded pointer %s is not supported: embed the struct itself or name the field", field.Type)
		case field.Anonymous && !named && field.Type.Kind() == reflect.Struct && specialKind(field.Type) == Invalid:
			if err := collectFields(field.Type, path, fields); err != nil {
				return err
			}
		case field.IsExported():
			*fields = append(*fields, GoField{Name: name, Index: path, Type: field.Type})
		}
	}
	return nil
}

// fieldName returns the name of a field in the schema, or "" if the field is left out,
// and whether a tag gave the name.
func fieldName(field reflect.StructField) (name string, named bool) {
	for _, key := range []string{"nearcall", "json"} {
		tag := field.Tag.Get(key)
		if tag == "-" {
			return "", true
		}
		if name, _, _ := strings.Cut(tag, ","); name != "" {
			return name, true
		}
	}
	return field.Name, false
}

// visibleFields drops the fields that an outer field hides.
func visibleFields(t reflect.Type, all []GoField) ([]GoField, error) {
	depths := map[string]int{}
	for _, field := range all {
		if known, ok := depths[field.Name]; !ok || len(field.Index) < known {
			depths[field.Name] = len(field.Index)
		}
	}
	visible := slices.DeleteFunc(all, func(field GoField) bool { return depths[field.Name] != len(field.Index) })
	seen := map[string]bool{}
	for _, field := range visible {
		if seen[field.Name] {
			return nil, fmt.Errorf("struct %s has two fields called %q", t, field.Name)
		}
		seen[field.Name] = true
		if err := checkText("field name", field.Name); err != nil {
			return nil, fmt.Errorf("struct %s: %w", t, err)
		}
	}
	return visible, nil
}
