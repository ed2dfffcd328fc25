import { quoteForBash } from '../../src/shell/quote.ts';

// System calls that no usual program offers. Perl is part of every Debian, and can make them without a compiler.

const x64 = { ptrace: 101, sendmsg: 46, recvmsg: 47, open_by_handle_at: 304 };
const arm64 = { ptrace: 117, sendmsg: 211, recvmsg: 212, open_by_handle_at: 265 };
const numbers = { ...(process.arch === 'arm64' ? arm64 : x64), pidfd_open: 434, pidfd_getfd: 438 };

const perl = (program: string, ...args: string[]) => `perl -e ${quoteForBash(program)} -- ${args.join(' ')}`;

/** Succeeds if a process can be traced. It does not stop, and is free again when Perl ends. */
export const trace = (pid: string) => perl(`exit(syscall(${numbers.ptrace}, 0x4206, $ARGV[0] + 0, 0, 0) != 0)`, pid);

/** Succeeds if the standard output of a process can be copied. */
export const copyDescriptor = (pid: string) =>
  perl(
    `my $process = syscall(${numbers.pidfd_open}, $ARGV[0] + 0, 0);
     exit($process < 0 || syscall(${numbers.pidfd_getfd}, $process, 1, 0) < 0)`,
    pid,
  );

/** Succeeds if files can be opened by their numbers, past all folders. The file does not exist. */
export const openByHandle = perl(
  `sysopen(my $folder, ".", 0) or exit 1;
   my $handle = pack("L l a8", 8, 1, "");
   syscall(${numbers.open_by_handle_at}, fileno($folder), $handle, 0);
   exit($!{EPERM} ? 1 : 0)`,
);

/** Succeeds if all packets of the network can be read. */
export const readPackets = perl('exit(!socket(my $s, 17, 3, 768))');

/** A message of one byte with room for one descriptor. */
const message = `
  my $vector = pack("P Q", $data, 1);
  my $message = pack("Q L x4 P Q P Q l x4", 0, 0, $vector, 1, $control, 24, 0);`;

/** Receives an open folder, and reads a file below it. `address` is that of `descriptorServer`. */
export const receiveFolder = (address: string, path: string) =>
  perl(
    `use Socket;
     my ($address, $path) = @ARGV;
     $address =~ s/^@/\\0/;
     socket(my $socket, AF_UNIX, SOCK_STREAM, 0) or exit 1;
     connect($socket, pack("S a*", AF_UNIX, $address)) or exit 1;
     my ($data, $control) = ("-", "\\0" x 24);${message}
     syscall(${numbers.recvmsg}, fileno($socket), $message, 0) == 1 or exit 1;
     my $folder = unpack("l", substr($control, 16, 4));
     open(my $file, "<", "/proc/self/fd/$folder$path") or exit 1;
     exit(<$file> ne "secret\\n")`,
    quoteForBash(address),
    quoteForBash(path),
  );

/** Perl that hands the root folder of the host to everybody who connects: `<path of a socket> @<name of an abstract one>`. */
export const descriptorServer = `
  use Socket;
  my @servers = map {
    (my $address = $_) =~ s/^@/\\0/;
    socket(my $server, AF_UNIX, SOCK_STREAM, 0) or die $!;
    bind($server, pack("S a*", AF_UNIX, $address)) or die $!;
    listen($server, 9) or die $!;
    $server
  } @ARGV;
  sysopen(my $root, "/", 0) or die $!;
  syswrite(STDOUT, "ready");
  while (1) {
    my $ready = "";
    vec($ready, fileno($_), 1) = 1 for @servers;
    select($ready, undef, undef, undef);
    for my $server (grep { vec($ready, fileno($_), 1) } @servers) {
      accept(my $client, $server) or next;
      my ($data, $control) = ("-", pack("Q l l l x4", 20, 1, 1, fileno($root)));${message}
      syscall(${numbers.sendmsg}, fileno($client), $message, 0);
    }
  }`;
