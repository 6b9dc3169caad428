module @jit_picks attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<8x8xf32> loc("params['in']"), %arg1: tensor<8x8xf32> loc("params['loop']"), %arg2: tensor<8x5xf32> loc("params['out']"), %arg3: tensor<2x4x8xf32> loc("x"), %arg4: tensor<2xi32> loc("places"), %arg5: tensor<2xui32> loc("key")) -> (tensor<2x8x5xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg3, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x4x8xf32>, tensor<8x8xf32>) -> tensor<2x4x8xf32>
    %cst = stablehlo.constant dense<0.899999976> : tensor<f32>
    %1 = call @_bernoulli(%arg5, %cst) : (tensor<2xui32>, tensor<f32>) -> tensor<2x4x8xi1>
    %cst_0 = stablehlo.constant dense<0.899999976> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
    %3 = stablehlo.divide %0, %2 : tensor<2x4x8xf32>
    %cst_1 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %4 = call @_where(%1, %3, %cst_1) : (tensor<2x4x8xi1>, tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<2x8xf32>
    %6 = stablehlo.transpose %4, dims = [1, 0, 2] : (tensor<2x4x8xf32>) -> tensor<4x2x8xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %7 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x2x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %8:5 = stablehlo.while(%iterArg = %6, %iterArg_19 = %arg1, %iterArg_20 = %c, %iterArg_21 = %5, %iterArg_22 = %7) : tensor<4x2x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<2x8xf32>, tensor<4x2x8xf32>
    cond {
      %c_23 = stablehlo.constant dense<4> : tensor<i32>
      %72 = stablehlo.compare LT, %iterArg_20, %c_23, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %72 : tensor<i1>
    } do {
      %72 = func.call @dynamic_index_in_dim(%iterArg, %iterArg_20) : (tensor<4x2x8xf32>, tensor<i32>) -> tensor<2x8xf32>
      %73:2 = func.call @closed_call_0(%iterArg_19, %iterArg_21, %72) : (tensor<8x8xf32>, tensor<2x8xf32>, tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>)
      %74 = func.call @dynamic_update_index_in_dim(%iterArg_22, %73#1, %iterArg_20) : (tensor<4x2x8xf32>, tensor<2x8xf32>, tensor<i32>) -> tensor<4x2x8xf32>
      %c_23 = stablehlo.constant dense<1> : tensor<i32>
      %75 = stablehlo.add %iterArg_20, %c_23 : tensor<i32>
      stablehlo.return %iterArg, %iterArg_19, %75, %73#0, %74 : tensor<4x2x8xf32>, tensor<8x8xf32>, tensor<i32>, tensor<2x8xf32>, tensor<4x2x8xf32>
    }
    %9 = stablehlo.transpose %8#4, dims = [1, 0, 2] : (tensor<4x2x8xf32>) -> tensor<2x4x8xf32>
    %values, %indices = chlo.top_k(%9, k = 2) : tensor<2x4x8xf32> -> (tensor<2x4x2xf32>, tensor<2x4x2xi32>)
    %10 = call @argsort(%9) : (tensor<2x4x8xf32>) -> tensor<2x4x8xi32>
    %11 = call @take_along_axis(%9, %10) : (tensor<2x4x8xf32>, tensor<2x4x8xi32>) -> tensor<2x4x8xf32>
    %12 = call @argmax(%9) : (tensor<2x4x8xf32>) -> tensor<2x4xi32>
    %13 = call @_one_hot(%12) : (tensor<2x4xi32>) -> tensor<2x4x8xf32>
    %14 = stablehlo.add %11, %13 : tensor<2x4x8xf32>
    %15 = call @cumsum(%14) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %16 = call @sort(%9) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %17 = stablehlo.reverse %16, dims = [1] : tensor<2x4x8xf32>
    %18 = stablehlo.add %15, %17 : tensor<2x4x8xf32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %20 = stablehlo.compare LT, %arg4, %19, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_5 = stablehlo.constant dense<2> : tensor<i32>
    %21 = stablehlo.broadcast_in_dim %c_5, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %22 = stablehlo.add %arg4, %21 : tensor<2xi32>
    %23 = stablehlo.select %20, %22, %arg4 : tensor<2xi1>, tensor<2xi32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %24 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %25 = stablehlo.compare LT, %arg4, %24, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_7 = stablehlo.constant dense<4> : tensor<i32>
    %26 = stablehlo.broadcast_in_dim %c_7, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %27 = stablehlo.add %arg4, %26 : tensor<2xi32>
    %28 = stablehlo.select %25, %27, %arg4 : tensor<2xi1>, tensor<2xi32>
    %29 = stablehlo.broadcast_in_dim %23, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %30 = stablehlo.broadcast_in_dim %28, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %31 = stablehlo.concatenate %29, %30, dim = 1 : (tensor<2x1xi32>, tensor<2x1xi32>) -> tensor<2x2xi32>
    %32 = "stablehlo.gather"(%9, %31) <{dimension_numbers = #stablehlo.gather<offset_dims = [1], collapsed_slice_dims = [0, 1], start_index_map = [0, 1], index_vector_dim = 1>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 8>}> : (tensor<2x4x8xf32>, tensor<2x2xi32>) -> tensor<2x8xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 2] : (tensor<2x8xf32>) -> tensor<2x1x8xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [0, 1, 2] : (tensor<2x1x8xf32>) -> tensor<2x4x8xf32>
    %35 = stablehlo.add %18, %34 : tensor<2x4x8xf32>
    %cst_8 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %36 = stablehlo.reduce(%values init: %cst_8) applies stablehlo.add across dimensions = [2] : (tensor<2x4x2xf32>, tensor<f32>) -> tensor<2x4xf32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [0, 1] : (tensor<2x4xf32>) -> tensor<2x4x1xf32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %38 = stablehlo.broadcast_in_dim %c_9, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %39 = stablehlo.compare LT, %arg4, %38, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_10 = stablehlo.constant dense<2> : tensor<i32>
    %40 = stablehlo.broadcast_in_dim %c_10, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %41 = stablehlo.add %arg4, %40 : tensor<2xi32>
    %42 = stablehlo.select %39, %41, %arg4 : tensor<2xi1>, tensor<2xi32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %44 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2] : (tensor<2x4x1xf32>) -> tensor<2x4x8xf32>
    %45 = "stablehlo.scatter"(%35, %43, %44) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1, 2], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      %72 = stablehlo.add %arg6, %arg7 : tensor<f32>
      stablehlo.return %72 : tensor<f32>
    }) : (tensor<2x4x8xf32>, tensor<2x1xi32>, tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    %46 = stablehlo.slice %indices [0:2, 0:1, 0:1] : (tensor<2x4x2xi32>) -> tensor<2x1x1xi32>
    %47 = stablehlo.reshape %46 : (tensor<2x1x1xi32>) -> tensor<2x1xi32>
    %48 = stablehlo.convert %47 : (tensor<2x1xi32>) -> tensor<2x1xf32>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<2x1xf32>
    %50 = stablehlo.multiply %49, %48 : tensor<2x1xf32>
    %c_12 = stablehlo.constant dense<0> : tensor<i32>
    %51 = stablehlo.broadcast_in_dim %c_12, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %52 = stablehlo.convert %50 : tensor<2x1xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x8xf32>
    %54 = "stablehlo.scatter"(%45, %51, %53) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = true}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      stablehlo.return %arg7 : tensor<f32>
    }) : (tensor<2x4x8xf32>, tensor<1xi32>, tensor<2x8xf32>) -> tensor<2x4x8xf32>
    %cst_13 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<8x8xf32>
    %56 = stablehlo.reshape %9 : (tensor<2x4x8xf32>) -> tensor<8x8xf32>
    %57 = stablehlo.slice %56 [0:2, 0:8] : (tensor<8x8xf32>) -> tensor<2x8xf32>
    %c_14 = stablehlo.constant dense<0> : tensor<i32>
    %58 = stablehlo.broadcast_in_dim %c_14, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %59 = stablehlo.compare LT, %arg4, %58, SIGNED : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi1>
    %c_15 = stablehlo.constant dense<8> : tensor<i32>
    %60 = stablehlo.broadcast_in_dim %c_15, dims = [] : (tensor<i32>) -> tensor<2xi32>
    %61 = stablehlo.add %arg4, %60 : tensor<2xi32>
    %62 = stablehlo.select %59, %61, %arg4 : tensor<2xi1>, tensor<2xi32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0] : (tensor<2xi32>) -> tensor<2x1xi32>
    %64 = "stablehlo.scatter"(%55, %63, %57) <{indices_are_sorted = false, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [1], inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, unique_indices = false}> ({
    ^bb0(%arg6: tensor<f32>, %arg7: tensor<f32>):
      stablehlo.return %arg7 : tensor<f32>
    }) : (tensor<8x8xf32>, tensor<2x1xi32>, tensor<2x8xf32>) -> tensor<8x8xf32>
    %65 = stablehlo.concatenate %9, %9, dim = 1 : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x8x8xf32>
    %c_16 = stablehlo.constant dense<0> : tensor<i32>
    %c_17 = stablehlo.constant dense<1> : tensor<i32>
    %c_18 = stablehlo.constant dense<0> : tensor<i32>
    %66 = stablehlo.dynamic_update_slice %65, %54, %c_16, %c_17, %c_18 : (tensor<2x8x8xf32>, tensor<2x4x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<2x8x8xf32>
    %67 = stablehlo.dot_general %66, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x8xf32>, tensor<8x5xf32>) -> tensor<2x8x5xf32>
    %68 = stablehlo.dot_general %64, %arg2, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<8x8xf32>, tensor<8x5xf32>) -> tensor<8x5xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [1, 2] : (tensor<8x5xf32>) -> tensor<1x8x5xf32>
    %70 = stablehlo.broadcast_in_dim %69, dims = [0, 1, 2] : (tensor<1x8x5xf32>) -> tensor<2x8x5xf32>
    %71 = stablehlo.add %67, %70 : tensor<2x8x5xf32>
    return %71 : tensor<2x8x5xf32>
  }
  func.func private @_bernoulli(%arg0: tensor<2xui32>, %arg1: tensor<f32>) -> tensor<2x4x8xi1> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %0 = call @_uniform(%arg0, %cst, %cst_0) : (tensor<2xui32>, tensor<f32>, tensor<f32>) -> tensor<2x4x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
    %2 = stablehlo.compare LT, %0, %1, FLOAT : (tensor<2x4x8xf32>, tensor<2x4x8xf32>) -> tensor<2x4x8xi1>
    return %2 : tensor<2x4x8xi1>
  }
  func.func private @_uniform(%arg0: tensor<2xui32>, %arg1: tensor<f32>, %arg2: tensor<f32>) -> tensor<2x4x8xf32> {
    %0 = stablehlo.convert %arg1 : tensor<f32>
    %1 = stablehlo.convert %arg2 : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %4 = stablehlo.slice %arg0 [0:1] : (tensor<2xui32>) -> tensor<1xui32>
    %5 = stablehlo.reshape %4 : (tensor<1xui32>) -> tensor<ui32>
    %6 = stablehlo.slice %arg0 [1:2] : (tensor<2xui32>) -> tensor<1xui32>
    %7 = stablehlo.reshape %6 : (tensor<1xui32>) -> tensor<ui32>
    %8 = stablehlo.iota dim = 0 : tensor<2x4x8xui64>
    %9 = stablehlo.iota dim = 1 : tensor<2x4x8xui64>
    %10 = stablehlo.iota dim = 2 : tensor<2x4x8xui64>
    %c = stablehlo.constant dense<32> : tensor<ui64>
    %11 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<ui64>) -> tensor<2x4x8xui64>
    %12 = stablehlo.multiply %11, %8 : tensor<2x4x8xui64>
    %c_0 = stablehlo.constant dense<8> : tensor<ui64>
    %13 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<ui64>) -> tensor<2x4x8xui64>
    %14 = stablehlo.multiply %13, %9 : tensor<2x4x8xui64>
    %c_1 = stablehlo.constant dense<1> : tensor<ui64>
    %15 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<ui64>) -> tensor<2x4x8xui64>
    %16 = stablehlo.multiply %15, %10 : tensor<2x4x8xui64>
    %17 = stablehlo.add %12, %14 : tensor<2x4x8xui64>
    %18 = stablehlo.add %17, %16 : tensor<2x4x8xui64>
    %c_2 = stablehlo.constant dense<32> : tensor<ui64>
    %19 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<ui64>) -> tensor<2x4x8xui64>
    %20 = stablehlo.shift_right_logical %18, %19 : tensor<2x4x8xui64>
    %21 = stablehlo.convert %18 : (tensor<2x4x8xui64>) -> tensor<2x4x8xui32>
    %22 = stablehlo.convert %20 : (tensor<2x4x8xui64>) -> tensor<2x4x8xui32>
    %23:2 = call @threefry2x32(%5, %7, %22, %21) : (tensor<ui32>, tensor<ui32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>) -> (tensor<2x4x8xui32>, tensor<2x4x8xui32>)
    %24 = stablehlo.xor %23#0, %23#1 : tensor<2x4x8xui32>
    %c_3 = stablehlo.constant dense<9> : tensor<ui32>
    %25 = stablehlo.broadcast_in_dim %c_3, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %26 = stablehlo.shift_right_logical %24, %25 : tensor<2x4x8xui32>
    %c_4 = stablehlo.constant dense<1065353216> : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %c_4, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %28 = stablehlo.or %26, %27 : tensor<2x4x8xui32>
    %29 = stablehlo.bitcast_convert %28 : (tensor<2x4x8xui32>) -> tensor<2x4x8xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
    %31 = stablehlo.subtract %29, %30 : tensor<2x4x8xf32>
    %32 = stablehlo.subtract %3, %2 : tensor<1x1x1xf32>
    %33 = stablehlo.broadcast_in_dim %32, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x4x8xf32>
    %34 = stablehlo.multiply %31, %33 : tensor<2x4x8xf32>
    %35 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x4x8xf32>
    %36 = stablehlo.add %34, %35 : tensor<2x4x8xf32>
    %37 = stablehlo.broadcast_in_dim %2, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<2x4x8xf32>
    %38 = stablehlo.maximum %37, %36 : tensor<2x4x8xf32>
    return %38 : tensor<2x4x8xf32>
  }
  func.func private @threefry2x32(%arg0: tensor<ui32>, %arg1: tensor<ui32>, %arg2: tensor<2x4x8xui32>, %arg3: tensor<2x4x8xui32>) -> (tensor<2x4x8xui32>, tensor<2x4x8xui32>) {
    %c = stablehlo.constant dense<[13, 15, 26, 6]> : tensor<4xui32>
    %c_0 = stablehlo.constant dense<[17, 29, 16, 24]> : tensor<4xui32>
    %0 = stablehlo.xor %arg0, %arg1 : tensor<ui32>
    %c_1 = stablehlo.constant dense<466688986> : tensor<ui32>
    %1 = stablehlo.xor %0, %c_1 : tensor<ui32>
    %2 = stablehlo.broadcast_in_dim %arg0, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %3 = stablehlo.add %arg2, %2 : tensor<2x4x8xui32>
    %4 = stablehlo.broadcast_in_dim %arg1, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %5 = stablehlo.add %arg3, %4 : tensor<2x4x8xui32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %6:9 = stablehlo.while(%iterArg = %c_3, %iterArg_4 = %c_2, %iterArg_5 = %3, %iterArg_6 = %5, %iterArg_7 = %arg1, %iterArg_8 = %1, %iterArg_9 = %arg0, %iterArg_10 = %c, %iterArg_11 = %c_0) : tensor<i32>, tensor<i32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    cond {
      %c_12 = stablehlo.constant dense<5> : tensor<i32>
      %7 = stablehlo.compare LT, %iterArg, %c_12, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %7 : tensor<i1>
    } do {
      %7:8 = func.call @closed_call(%iterArg_4, %iterArg_5, %iterArg_6, %iterArg_7, %iterArg_8, %iterArg_9, %iterArg_10, %iterArg_11) : (tensor<i32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) -> (tensor<i32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>)
      %c_12 = stablehlo.constant dense<1> : tensor<i32>
      %8 = stablehlo.add %iterArg, %c_12 : tensor<i32>
      stablehlo.return %8, %7#0, %7#1, %7#2, %7#3, %7#4, %7#5, %7#6, %7#7 : tensor<i32>, tensor<i32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
    }
    return %6#2, %6#3 : tensor<2x4x8xui32>, tensor<2x4x8xui32>
  }
  func.func private @closed_call(%arg0: tensor<i32>, %arg1: tensor<2x4x8xui32>, %arg2: tensor<2x4x8xui32>, %arg3: tensor<ui32>, %arg4: tensor<ui32>, %arg5: tensor<ui32>, %arg6: tensor<4xui32>, %arg7: tensor<4xui32>) -> (tensor<i32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>) {
    %c = stablehlo.constant dense<1> : tensor<i32>
    %0 = stablehlo.add %arg0, %c : tensor<i32>
    %1 = stablehlo.slice %arg6 [0:1] : (tensor<4xui32>) -> tensor<1xui32>
    %2 = stablehlo.reshape %1 : (tensor<1xui32>) -> tensor<ui32>
    %3 = stablehlo.add %arg1, %arg2 : tensor<2x4x8xui32>
    %4 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %5 = stablehlo.shift_left %arg2, %4 : tensor<2x4x8xui32>
    %c_0 = stablehlo.constant dense<32> : tensor<ui32>
    %6 = stablehlo.subtract %c_0, %2 : tensor<ui32>
    %7 = stablehlo.broadcast_in_dim %6, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %8 = stablehlo.shift_right_logical %arg2, %7 : tensor<2x4x8xui32>
    %9 = stablehlo.or %5, %8 : tensor<2x4x8xui32>
    %10 = stablehlo.xor %3, %9 : tensor<2x4x8xui32>
    %11 = stablehlo.slice %arg6 [1:2] : (tensor<4xui32>) -> tensor<1xui32>
    %12 = stablehlo.reshape %11 : (tensor<1xui32>) -> tensor<ui32>
    %13 = stablehlo.add %3, %10 : tensor<2x4x8xui32>
    %14 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %15 = stablehlo.shift_left %10, %14 : tensor<2x4x8xui32>
    %c_1 = stablehlo.constant dense<32> : tensor<ui32>
    %16 = stablehlo.subtract %c_1, %12 : tensor<ui32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %18 = stablehlo.shift_right_logical %10, %17 : tensor<2x4x8xui32>
    %19 = stablehlo.or %15, %18 : tensor<2x4x8xui32>
    %20 = stablehlo.xor %13, %19 : tensor<2x4x8xui32>
    %21 = stablehlo.slice %arg6 [2:3] : (tensor<4xui32>) -> tensor<1xui32>
    %22 = stablehlo.reshape %21 : (tensor<1xui32>) -> tensor<ui32>
    %23 = stablehlo.add %13, %20 : tensor<2x4x8xui32>
    %24 = stablehlo.broadcast_in_dim %22, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %25 = stablehlo.shift_left %20, %24 : tensor<2x4x8xui32>
    %c_2 = stablehlo.constant dense<32> : tensor<ui32>
    %26 = stablehlo.subtract %c_2, %22 : tensor<ui32>
    %27 = stablehlo.broadcast_in_dim %26, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %28 = stablehlo.shift_right_logical %20, %27 : tensor<2x4x8xui32>
    %29 = stablehlo.or %25, %28 : tensor<2x4x8xui32>
    %30 = stablehlo.xor %23, %29 : tensor<2x4x8xui32>
    %31 = stablehlo.slice %arg6 [3:4] : (tensor<4xui32>) -> tensor<1xui32>
    %32 = stablehlo.reshape %31 : (tensor<1xui32>) -> tensor<ui32>
    %33 = stablehlo.add %23, %30 : tensor<2x4x8xui32>
    %34 = stablehlo.broadcast_in_dim %32, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %35 = stablehlo.shift_left %30, %34 : tensor<2x4x8xui32>
    %c_3 = stablehlo.constant dense<32> : tensor<ui32>
    %36 = stablehlo.subtract %c_3, %32 : tensor<ui32>
    %37 = stablehlo.broadcast_in_dim %36, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %38 = stablehlo.shift_right_logical %30, %37 : tensor<2x4x8xui32>
    %39 = stablehlo.or %35, %38 : tensor<2x4x8xui32>
    %40 = stablehlo.xor %33, %39 : tensor<2x4x8xui32>
    %41 = stablehlo.broadcast_in_dim %arg3, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %42 = stablehlo.add %33, %41 : tensor<2x4x8xui32>
    %43 = stablehlo.broadcast_in_dim %arg4, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %44 = stablehlo.add %40, %43 : tensor<2x4x8xui32>
    %c_4 = stablehlo.constant dense<1> : tensor<i32>
    %45 = stablehlo.add %arg0, %c_4 : tensor<i32>
    %46 = stablehlo.convert %45 : (tensor<i32>) -> tensor<ui32>
    %47 = stablehlo.broadcast_in_dim %46, dims = [] : (tensor<ui32>) -> tensor<2x4x8xui32>
    %48 = stablehlo.add %44, %47 : tensor<2x4x8xui32>
    return %0, %42, %48, %arg4, %arg5, %arg3, %arg7, %arg6 : tensor<i32>, tensor<2x4x8xui32>, tensor<2x4x8xui32>, tensor<ui32>, tensor<ui32>, tensor<ui32>, tensor<4xui32>, tensor<4xui32>
  }
  func.func private @_where(%arg0: tensor<2x4x8xi1>, %arg1: tensor<2x4x8xf32>, %arg2: tensor<f32>) -> tensor<2x4x8xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
    %2 = stablehlo.select %arg0, %arg1, %1 : tensor<2x4x8xi1>, tensor<2x4x8xf32>
    return %2 : tensor<2x4x8xf32>
  }
  func.func private @dynamic_index_in_dim(%arg0: tensor<4x2x8xf32>, %arg1: tensor<i32>) -> tensor<2x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.dynamic_slice %arg0, %arg1, %c, %c_0, sizes = [1, 2, 8] : (tensor<4x2x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x2x8xf32>
    %1 = stablehlo.reshape %0 : (tensor<1x2x8xf32>) -> tensor<2x8xf32>
    return %1 : tensor<2x8xf32>
  }
  func.func private @closed_call_0(%arg0: tensor<8x8xf32>, %arg1: tensor<2x8xf32>, %arg2: tensor<2x8xf32>) -> (tensor<2x8xf32>, tensor<2x8xf32>) {
    %0 = stablehlo.dot_general %arg1, %arg0, contracting_dims = [1] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8xf32>, tensor<8x8xf32>) -> tensor<2x8xf32>
    %1 = stablehlo.add %0, %arg2 : tensor<2x8xf32>
    %2 = stablehlo.tanh %1 : tensor<2x8xf32>
    return %2, %2 : tensor<2x8xf32>, tensor<2x8xf32>
  }
  func.func private @dynamic_update_index_in_dim(%arg0: tensor<4x2x8xf32>, %arg1: tensor<2x8xf32>, %arg2: tensor<i32>) -> tensor<4x2x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg1, dims = [1, 2] : (tensor<2x8xf32>) -> tensor<1x2x8xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %c_0 = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.dynamic_update_slice %arg0, %0, %arg2, %c, %c_0 : (tensor<4x2x8xf32>, tensor<1x2x8xf32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<4x2x8xf32>
    return %1 : tensor<4x2x8xf32>
  }
  func.func private @argsort(%arg0: tensor<2x4x8xf32>) -> tensor<2x4x8xi32> {
    %0 = stablehlo.iota dim = 2 : tensor<2x4x8xi32>
    %1:2 = "stablehlo.sort"(%arg0, %0) <{dimension = 2 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>, %arg3: tensor<i32>, %arg4: tensor<i32>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %3 = stablehlo.select %2, %cst_0, %arg1 : tensor<i1>, tensor<f32>
      %4 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %5 = stablehlo.select %4, %cst_1, %3 : tensor<i1>, tensor<f32>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %6 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %7 = stablehlo.select %6, %cst_3, %arg2 : tensor<i1>, tensor<f32>
      %8 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %9 = stablehlo.select %8, %cst_4, %7 : tensor<i1>, tensor<f32>
      %10 = stablehlo.compare LT, %5, %9, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %10 : tensor<i1>
    }) : (tensor<2x4x8xf32>, tensor<2x4x8xi32>) -> (tensor<2x4x8xf32>, tensor<2x4x8xi32>)
    return %1#1 : tensor<2x4x8xi32>
  }
  func.func private @take_along_axis(%arg0: tensor<2x4x8xf32>, %arg1: tensor<2x4x8xi32>) -> tensor<2x4x8xf32> {
    %c = stablehlo.constant dense<0> : tensor<i32>
    %0 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<2x4x8xi32>
    %1 = stablehlo.compare LT, %arg1, %0, SIGNED : (tensor<2x4x8xi32>, tensor<2x4x8xi32>) -> tensor<2x4x8xi1>
    %c_0 = stablehlo.constant dense<8> : tensor<i32>
    %2 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<2x4x8xi32>
    %3 = stablehlo.add %arg1, %2 : tensor<2x4x8xi32>
    %4 = stablehlo.select %1, %3, %arg1 : tensor<2x4x8xi1>, tensor<2x4x8xi32>
    %5 = stablehlo.reshape %4 : (tensor<2x4x8xi32>) -> tensor<2x4x8x1xi32>
    %c_1 = stablehlo.constant dense<7> : tensor<1xi32>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %6 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<2x4x8x1xi32>
    %7 = stablehlo.compare GE, %5, %6, SIGNED : (tensor<2x4x8x1xi32>, tensor<2x4x8x1xi32>) -> tensor<2x4x8x1xi1>
    %8 = stablehlo.broadcast_in_dim %c_1, dims = [3] : (tensor<1xi32>) -> tensor<1x1x1x1xi32>
    %9 = stablehlo.broadcast_in_dim %8, dims = [0, 1, 2, 3] : (tensor<1x1x1x1xi32>) -> tensor<2x4x8x1xi32>
    %10 = stablehlo.compare LE, %5, %9, SIGNED : (tensor<2x4x8x1xi32>, tensor<2x4x8x1xi32>) -> tensor<2x4x8x1xi1>
    %11 = stablehlo.and %7, %10 : tensor<2x4x8x1xi1>
    %c_3 = stablehlo.constant dense<true> : tensor<i1>
    %12 = stablehlo.reduce(%11 init: %c_3) applies stablehlo.and across dimensions = [3] : (tensor<2x4x8x1xi1>, tensor<i1>) -> tensor<2x4x8xi1>
    %13 = "stablehlo.gather"(%arg0, %5) <{dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [2], operand_batching_dims = [0, 1], start_indices_batching_dims = [0, 1], start_index_map = [2], index_vector_dim = 3>, indices_are_sorted = false, slice_sizes = array<i64: 1, 1, 1>}> : (tensor<2x4x8xf32>, tensor<2x4x8x1xi32>) -> tensor<2x4x8xf32>
    %cst = stablehlo.constant dense<0x7FC00000> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
    %15 = stablehlo.select %12, %13, %14 : tensor<2x4x8xi1>, tensor<2x4x8xf32>
    return %15 : tensor<2x4x8xf32>
  }
  func.func private @argmax(%arg0: tensor<2x4x8xf32>) -> tensor<2x4xi32> {
    %0 = stablehlo.iota dim = 2 : tensor<2x4x8xi32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [2] : (tensor<2x4x8xf32>, tensor<2x4x8xi32>, tensor<f32>, tensor<i32>) -> (tensor<2x4xf32>, tensor<2x4xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {
      %2 = stablehlo.compare GT, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }
    return %1#1 : tensor<2x4xi32>
  }
  func.func private @_one_hot(%arg0: tensor<2x4xi32>) -> tensor<2x4x8xf32> {
    %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 1] : (tensor<2x4xi32>) -> tensor<2x4x1xi32>
    %1 = stablehlo.iota dim = 2 : tensor<1x1x8xi32>
    %2 = stablehlo.broadcast_in_dim %0, dims = [0, 1, 2] : (tensor<2x4x1xi32>) -> tensor<2x4x8xi32>
    %3 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x8xi32>) -> tensor<2x4x8xi32>
    %4 = stablehlo.compare EQ, %2, %3, SIGNED : (tensor<2x4x8xi32>, tensor<2x4x8xi32>) -> tensor<2x4x8xi1>
    %5 = stablehlo.convert %4 : (tensor<2x4x8xi1>) -> tensor<2x4x8xf32>
    return %5 : tensor<2x4x8xf32>
  }
  func.func private @cumsum(%arg0: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %0 = call @cumsum_1(%arg0) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %0 : tensor<2x4x8xf32>
  }
  func.func private @cumsum_1(%arg0: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %1 = "stablehlo.reduce_window"(%arg0, %0) <{base_dilations = array<i64: 1, 1, 1>, padding = dense<[[0, 0], [3, 0], [0, 0]]> : tensor<3x2xi64>, window_dilations = array<i64: 1, 1, 1>, window_dimensions = array<i64: 1, 4, 1>, window_strides = array<i64: 1, 1, 1>}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %2 = stablehlo.add %arg1, %arg2 : tensor<f32>
      stablehlo.return %2 : tensor<f32>
    }) : (tensor<2x4x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
    return %1 : tensor<2x4x8xf32>
  }
  func.func private @sort(%arg0: tensor<2x4x8xf32>) -> tensor<2x4x8xf32> {
    %0 = "stablehlo.sort"(%arg0) <{dimension = 1 : i64, is_stable = true}> ({
    ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
      %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %1 = stablehlo.compare EQ, %arg1, %cst, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_0 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %2 = stablehlo.select %1, %cst_0, %arg1 : tensor<i1>, tensor<f32>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_1 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %4 = stablehlo.select %3, %cst_1, %2 : tensor<i1>, tensor<f32>
      %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %5 = stablehlo.compare EQ, %arg2, %cst_2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
      %6 = stablehlo.select %5, %cst_3, %arg2 : tensor<i1>, tensor<f32>
      %7 = stablehlo.compare NE, %arg2, %arg2, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %cst_4 = stablehlo.constant dense<0x7FC00000> : tensor<f32>
      %8 = stablehlo.select %7, %cst_4, %6 : tensor<i1>, tensor<f32>
      %9 = stablehlo.compare LT, %4, %8, TOTALORDER : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %9 : tensor<i1>
    }) : (tensor<2x4x8xf32>) -> tensor<2x4x8xf32>
    return %0 : tensor<2x4x8xf32>
  }
}
