#!/usr/bin/perl
# What `validate --coarse` answers to a row is what `plan` answers to the command line that one
# would type for it: config, cluster and flags are made here a second time, from the row alone.
use strict;
use warnings;
use File::Temp 'tempdir';
use JSON::PP;

my $build  = $ENV{BUILD} // 'build';
my $folder = tempdir(CLEANUP => 1);
my $runs   = 'tests/validation/published.jsonl';
my $json   = JSON::PP->new->allow_nonref->canonical;

sub write_text {
    my ($path, $text) = @_;
    open my $file, '>', $path or die "$path: $!";
    print $file $text;
    close $file;
}

sub text_of {
    my ($path) = @_;
    open my $file, '<', $path or return '';
    local $/;
    return scalar <$file>;
}

sub config_of {
    my ($row) = @_;
    my $model = $row->{model};
    my ($experts, $gated) = @$model{qw(experts ffn_gated)};
    my $attention = $model->{attention} // '';
    if (!$experts && !$gated && $attention eq 'mha') {
        return {model_type => 'gpt2', n_layer => $model->{layers}, n_embd => $model->{hidden},
                n_head => $model->{heads}, n_inner => $model->{ffn_hidden},
                vocab_size => $model->{vocab}, n_positions => $row->{seq_len},
                activation_function => 'gelu_new', tie_word_embeddings => JSON::PP::true};
    }
    my $config = {
        vocab_size => $model->{vocab}, max_position_embeddings => $row->{seq_len},
        hidden_size => $model->{hidden}, num_hidden_layers => $model->{layers},
        num_attention_heads => $model->{heads},
        num_key_value_heads => $model->{kv_heads} || $model->{heads},
        intermediate_size => $model->{ffn_hidden} || $model->{moe_ffn_hidden},
        hidden_act => $gated ? 'silu' : 'gelu', tie_word_embeddings => JSON::PP::false,
    };
    $config->{head_dim} = $model->{head_dim} if $model->{head_dim};
    if (!$experts) {
        $config->{model_type} = $gated ? 'llama' : 'nemotron';
        $config->{hidden_act} = 'relu2' if !$gated;
        return $config;
    }
    $config->{num_experts_per_tok} = $model->{experts_per_token};
    my ($wide, $narrow) = @$model{qw(ffn_hidden moe_ffn_hidden)};
    if ($attention eq 'mla') {
        $config->{$_} = $model->{mla}{$_} for keys %{ $model->{mla} // {} };
        return {%$config, model_type => 'deepseek_v3', n_routed_experts => $experts,
                moe_intermediate_size => $narrow,
                n_shared_experts => $model->{shared_experts} || 0,
                first_k_dense_replace => $model->{dense_layers} || 0,
                num_nextn_predict_layers => $model->{mtp_layers} || 0};
    }
    if ($model->{sliding_window}) {
        return {%$config, model_type => 'gpt_oss', num_local_experts => $experts,
                intermediate_size => $narrow, sliding_window => $model->{sliding_window}};
    }
    if ($narrow && (!defined $wide || $wide != $narrow || $experts > 16)) {
        return {%$config, model_type => 'qwen3_moe', num_experts => $experts,
                moe_intermediate_size => $narrow, decoder_sparse_step => 1};
    }
    return {%$config, model_type => 'mixtral', num_local_experts => $experts,
            intermediate_size => $narrow || $wide};
}

sub cluster_of {
    my ($row) = @_;
    my ($gpus, $host) = @$row{qw(gpus gpus_per_node)};
    my $domain = $row->{nvlink_domain} < $gpus ? $row->{nvlink_domain} : $gpus;
    my $least  = $host < $gpus ? $host : $gpus;
    $domain-- while $domain > $least && ($gpus % $domain || $domain % $least);
    my $words = $row->{inter_node} // '';
    my $network = $row->{network} // {nics_per_host => $host, nic_bytes_per_s => 25e9};
    my $hosts   = int($domain / $host) || 1;
    return {
        name    => 'row',
        nodes   => [{
            count => int($gpus / $domain), gpus => $domain, device => $row->{device},
            gpus_per_host => $domain < $host ? $domain : $host,
            intra => {kind => 'nvswitch', bandwidth_bytes_per_s => $row->{intra_bytes_per_s},
                      latency_s => 2e-6, in_network_reduction => JSON::PP::false},
            host => {memory_bytes => 1e12, memory_bandwidth_bytes_per_s => 3e11, cores => 96,
                     pcie_bytes_per_s => 25e9, nvme_bytes_per_s => 0, nvme_bytes => 0},
            nics => {count => int($network->{nics_per_host} * $hosts),
                     bandwidth_bytes_per_s => $network->{nic_bytes_per_s}},
        }],
        network => {kind => $words =~ /Omni-Path/ ? 'omni-path' : 'infiniband',
                    $words =~ /Omni-Path/ ? () : (latency_s => 5e-6), oversubscription_ratio => 1,
                    rail_optimized => JSON::PP::true, in_network_reduction => JSON::PP::false},
    };
}

sub schedule_of {
    my ($row) = @_;
    my $words = lc($row->{schedule} // '');
    return 'zb-h1' if $words =~ /zb-1p/;
    return 'zb-h2' if $words =~ /zb-2p/;
    return $words =~ /interleaved/ && ($row->{vpp} // 1) > 1 ? 'interleaved' : '1f1b';
}

# Of the release that the row ran, where the stack tells it apart, and of the builds that it
# names; its software may be a build.
sub stack_of {
    my ($row) = @_;
    my $stack = eval { $json->decode(text_of("cost_models/stacks/$row->{stack}.json")) };
    my %is_kept = map { $_->{name} => 1 } @{ $stack->{releases} // [] };
    my ($of) = grep { $is_kept{$_} } map { m/^mbridge-(\d+\.\d+(?:\.\d+)?)/ ? $1 : () } $row->{id};
    my %is_built = map { $_->{name} => 1 } @{ $stack->{builds} // [] };
    my ($build) = grep { defined && $is_built{ s/\+.*//r } } @$row{qw(build software)};
    my $parts = join '+', grep { defined } $of, $build;
    return join '@', $row->{stack}, $parts || ();
}

sub flags_of {
    my ($row) = @_;
    my $recipe = lc($row->{precision} // '');
    my $precision = $recipe =~ /nvfp4/ ? 'fp4' : $recipe =~ /fp8/ ? 'fp8'
                  : $recipe =~ /bf16/ ? 'bf16' : $recipe =~ /fp16/ ? 'fp16' : 'bf16';
    my @flags = ('--seq-len', $row->{seq_len}, '--global-batch', $row->{global_batch},
                 '--precision', $precision, '--stack', stack_of($row));
    push @flags, "--$_", $row->{$_} || 1 for qw(tp pp cp ep dp);
    push @flags, '--micro-batch', $row->{micro_batch} if $row->{micro_batch};
    push @flags, '--vpp', $row->{vpp} if ($row->{vpp} // 1) > 1;
    push @flags, '--schedule', schedule_of($row) if ($row->{pp} // 1) > 1;
    push @flags, '--zero', $row->{zero_stage} if defined $row->{zero_stage};
    push @flags, '--sp', $row->{sp} ? 'on' : 'off' if defined $row->{sp} && ($row->{tp} // 1) > 1;
    my $recompute = lc($row->{recompute} // '');
    my ($kind) = $recompute =~ /of 32/ ? () : $recompute =~ /^(full|selective|none)/;
    push @flags, '--recompute', $kind if $kind;
    push @flags, '--attention', $row->{flash_attention} ? 'flash' : 'unfused'
        if defined $row->{flash_attention};
    return @flags;
}

# The step that `plan` predicts, or its last line without the name of the command.
sub plan {
    my ($row) = @_;
    write_text("$folder/config.json", $json->encode(config_of($row)));
    write_text("$folder/cluster.json", $json->encode(cluster_of($row)));
    my @flags = flags_of($row);
    unlink "$folder/plan.json";
    system("$build/meshwright plan $folder/config.json $folder/cluster.json @flags "
         . "-o $folder/plan.json >$folder/out 2>$folder/err");
    return $json->decode(text_of("$folder/plan.json"))->{prediction}{step_s}
        if -e "$folder/plan.json";
    my @lines = split /\n/, text_of("$folder/err");
    return $lines[-1] =~ s/^meshwright plan: //r;
}

# The first row of each family, and what cannot be asked.
my (%seen, @rows);
for my $line (split /\n/, text_of($runs)) {
    my $row = $json->decode($line);
    push @rows, $row if !$seen{ $row->{family} }++ or $row->{id} =~ /^(?:opt-175b|.*-512k$)/;
}
write_text("$folder/rows.jsonl", join '', map { $json->encode($_) . "\n" } @rows);
my $all = $json->decode(scalar `$build/meshwright validate $folder/rows.jsonl --coarse --json`);
my %answer = map { $_->{id} => $_->{step_s} // $_->{failed} } @{ $all->{rows} };

print '1..', @rows + 1, "\n";
my $number = 0;
for my $row (@rows) {
    my ($wanted, $found) = (plan($row), $answer{ $row->{id} } // '(nothing)');
    print $wanted eq $found ? 'ok' : 'not ok', ' ', ++$number, " - $row->{id}\n";
    print STDERR "# plan: $wanted\n# validate: $found\n" if $wanted ne $found;
}
my $failed = grep { /[a-z]{3}/ } values %answer;
print $failed >= 2 && $failed < 5 ? 'ok' : 'not ok', ' ', ++$number,
    " - a few rows cannot be asked, and the others can\n";
