// What the Thrift peer serves. Generated from it by ../generate.
namespace go echo

service Echo {
  binary Echo(1: binary data)
}
